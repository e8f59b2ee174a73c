# ruff: noqa: E501  a line of data is as long as it is
"""Texts that once went through the cleaning whole: numbers, known words and texts over several lines.

`*` marks what tells: none of these pieces may be seen again.
"""

from __future__ import annotations

import re

import msgspec


class Attack(msgspec.Struct, frozen=True):
    name: str
    text: str
    tells: tuple[str, ...]
    formed: bool
    """It has a form that the detector must see without the cleaning."""


_STAR = re.compile(r"\*([^*\n]+)\*")


def _attack(name: str, marked: str, formed: bool) -> Attack:
    return Attack(name, _STAR.sub(r"\1", marked), tuple(dict.fromkeys(_STAR.findall(marked))), formed)


FORMED: dict[str, str] = {
    "ids under prompt in JSON": '{"prompt": [*9906*, *1917*, *374*]}',
    "ids in nested JSON": 'INFO: [[*9906*, *1917*, *374*]]',
    "stop ids": '{"stop_token_ids": [*9906*, *1917*]}',
    "logit bias": '{"logit_bias": {"*9906*": -100, "*1917*": 5}}',
    "bare list": "INFO: [*9906*, *1917*, *374*, *264*]",
    "ids with blanks": "INFO: *9906* *1917* *374* *264*",
    "ids with bars": "INFO: *9906*|*1917*|*374*|*264*",
    "ids with dashes": "INFO: *9906* - *1917* - *374* - *264*",
    "ids with slashes": "INFO: *9906*/*1917*/*374*/*264*",
    "ids with dots": "INFO: *9906*.*1917*.*374*.*264*",
    "ids in an array": "DEBUG:root:array([*9906*, *1917*, *374*])",
    "ids in a tensor": "DEBUG:root:tensor([[*9906*, *1917*, *374*]])",
    "ids in a nested list": "DEBUG:root:x = [[*9906*, *1917*], [*374*, *264*]]",
    "an id and its probability": "*9906*: 0.5",
    "an id in words": "INFO: next token is *9906*",
    "an id behind out": "INFO: out=*9906*",
    "ids behind tokens": "INFO: tokens: *9906*, *1917*, *374*",
    "ids behind tokens and blanks": "INFO: tokens *9906* *1917* *374*",
    "ids behind a counter": "INFO: offset *9906* *1917* *374* *264*",
    "ids in words": "INFO: t*9906* t*1917* t*374* t*264*",
    "ids joined to words": "INFO: token-*9906* token-*1917* token_*264*",
    "ids behind a clock": "[12:34:56] *9906* *1917* *374* *264*",
    "ids shaped like a date": "*9906*-19-17 37:26:41 INFO *1917* *374*",
    "ids behind a date": "2026-08-30 11:02:17,553 - *9906* *1917* *374* *264*",
    "ids in a source line": 'Traceback (most recent call last):\n  File "/x/site-packages/mlx_lm/models/cache.py", line 3, in f\n    cache.update([*9906*, *1917*, *374*])',
    "a password behind a blank": "INFO: password *4821*",
    "a pin": "INFO: pin *4821*",
    "a second factor": "INFO: 2fa code *482113*",
    "a bearer of one word": "INFO: Bearer *model*",
    "a code in the environment": "DOOR_CODE=*4821*",
    "a user's number in JSON": '{"user_id": *4821*}',
    "a user's number": "INFO: user *4821* logged in",
    "a telephone": "INFO: call *555* *0142*",
    "a telephone of one piece": "INFO: call *5550142*",
    "the rest of an IBAN": "INFO: *3704* *0044* *0532* *0130* 00",
    "an IBAN": "INFO: *DE89* *3704* *0044* *0532* *0130* 00",
    "coordinates": "INFO: at *38.7223*, -*9.1393*",
    "a date of birth": "INFO: born *1984-03-12*",
    "a date of birth with dots": "INFO: born *12.03.1984*",
    "a date of birth with slashes": "INFO: born *12/03/1984*",
    "an account": "Total: *48213377*",
    "a build of nothing known": "INFO: 1.2.3+*deadbeefcafe*",
    "hexadecimal text": "INFO: *74696c646120736d697468*",
    "hexadecimal text in pairs": "INFO: *74 69 6c 64 61 20 73 6d*",
    "short hexadecimal text": "INFO: *74696c6461*",
    "single letters": "INFO: *t.i.l.d.a* *s.m.i.t.h*",
    "single letters with blanks": "INFO: *t i l d a s m i t h*",
    "an address with zeros": "INFO: ip *010.001.002.003*",
    "an address with dashes": "INFO: from *192-168-1-7*",
    "an address as a number": "INFO: from *3232235783*",
    "an address as hexadecimal": "INFO: from *0xA000001*",
    "a machine and its port": "INFO: from *nas:8080*",
    "a machine of known words": "INFO: from *gpu-server*",
    "a numbered machine": "INFO: server=*cache01*",
    "percent signs": "INFO: *model%20is%20a%20user*",
}  # fmt: skip

FORMLESS: dict[str, str] = {
    "one id a line": "INFO: start\n*9906*: 0.5\n*1917*: 0.25\nINFO: offset 4",
    "a wrapped dump": "INFO: [*9906*, *1917*,\n *374*, *264*,\n *1296*, *315*]\nINFO: offset 4",
    "a dump that goes on": "INFO: prompt_token_ids=[\n*9906*, *1917*,\nINFO: *374*\n]\nINFO: offset 4",
    "a dump whose lines are records": "INFO: prompt_token_ids=[\noffset=*9906*\nstep *1917*\n]\nINFO: offset 4",
    "a prompt in quotes": 'INFO: prompt="hi\nINFO: *mask* the cache\noffset=*4821*\nend"\nINFO: offset 4',
    "a prompt in quotes with quotes": 'INFO: prompt="he said "hi" to us\nINFO: *mask* the cache\nend"\nINFO: offset 4',
    "a prompt in single quotes": "INFO: prompt='it isn't so\nINFO: *mask* the cache'\nINFO: offset 4",
    "a prompt in three quotes": 'x = """hi\nINFO: *mask* the cache\n2026-08-30 11:02:17,553 - INFO - *window* 12\n"""\nINFO: offset 4',
    "a prompt in printed JSON": '{\n  "messages": [\n    {\n      "content": "*zorblax*"\n    }\n  ],\n  "user": *4821*\n}\nINFO: offset 4',
    "a prompt in a repr": "INFO: RequestOutput(request_id=0,\nINFO: *mask* the cache,\n)\nINFO: offset 4",
    "a prompt that never ends": 'INFO: prompt="hi\nINFO: *mask* the cache\nINFO: *window* 4',
    "a prompt without quotes": "2026-08-30 11:02:17,553 - INFO - prompt: hi\nINFO: *mask* the cache\n2026-08-30 11:02:18,001 - INFO - offset 4",
    "a printed answer": "==========\nINFO: *mask* the cache\noffset=*4821*\n==========\nPrompt: 14 tokens, 98.2 tokens-per-sec",
    "a body of curl": "curl http://localhost:8080/v1/completions -d '{\n\"prompt\": \"hi\n INFO: *mask* the cache\",\n\"n\": 1}'\nINFO: offset 4",
    "words behind a flag's value": "mlx_lm.generate --temp 0 *the* *model* *is* a user",
    "words behind a switch": "mlx_lm.generate --verbose *the* *model* *is* a user",
    "words before a flag": "mlx_lm.generate *the* *model* *is* a user --temp 0",
    "words in a prompt flag": "mlx_lm.generate --prompt *the* *model* *is* a user --temp 0",
    "words in a message": 'time=2026-09-14T08:00:00.000Z level=INFO source=server.go:1 msg="*the* *model* *is* a user"',
    "words of a record": "INFO: *the* *model* *is* a user",
    "words in a tuple": "INFO: ('*model*','*is*','a','*user*')",
    "words in a list": 'INFO: ["*model*", "*is*", "a", "*user*"]',
    "a private path of known words": "mlx_lm.server --model *cache/model*",
    "a private path behind an equals sign": "INFO: model=*cache/model*",
    "a request's number": "INFO: seq-*491715* done",
    "a request's number in a span": "2026-07-24T09:15:02.114390Z  INFO prefill{{seq_id=seq-*491715* prompt_len=12}}: mlxcel::server: chunk 0..512",
    "ids as a shape": "INFO: keys [*9906*, *1917*, *374*, *264*]",
    "ids as one counter": "INFO: step=*9906* step=*1917* step=*374* step=*264*",
    "ids as counts": "INFO: *9906* tokens *1917* tokens *374* tokens",
    "ids as times": "INFO: *9906*ms *1917*ms 374ms",
    "ids as decimals": "INFO: *99.06* *19.17* *37.4* *26.4*",
    "ids as probabilities": "INFO: *0.9906* *0.1917* *0.374*",
    "ids as a chain": "INFO: offset=*9906*->*1917*->*374*->*264*",
    "ids as a version": "INFO: mlx *9906*.*1917*.*374*",
    "ids as fractions of a second": "INFO: 12:34:56.*9906* 12:34:57.*1917*",
    "ids with colons": "INFO: *9906*:*1917*:*374*:*264*",
    "ids with plus signs": "INFO: *9906*+*1917*+*374*",
    "ids in types": "INFO: uint*9906* int*1917* float*374*",
    "ids of a digit": "INFO: *9 9 0 6 1 9*",
    "an id in brackets": "INFO: [*9906*]",
    "an id in an error in JSON": '{"error": "*9906* *1917* *374*"}',
    "hexadecimal text of five letters": "INFO: *6d 6f 64 65 6c*",
    "escaped text": "INFO: *\\x6d\\x6f\\x64*",
    "letters with bars": "INFO: *m|o|d|e|l*",
    "a commit that is none": "INFO: build *48213377*",
    "an address of four numbers as a version": "INFO: *v4.8.2.1*",
    "words joined by dots": "INFO: *the.model.is.a.user*",
    "words joined by underscores": "INFO: *the_model_is_a_user*",
    "words joined to a name": "INFO: *TheModelIsAUser*",
    "words joined by slashes": "INFO: *the/model/is/a/user*",
    "words with numbers between": "INFO: *the* 1 *model* 2 *is* 3 a 4 *user* 5",
    "words as keys": "INFO: *the*=1 *model*=2 *is*=3",
    "words in capitals": "INFO: *THE MODEL IS A USER*",
    "words in two quotes": "INFO: `*the model*` `*is a*`",
    "words in a string of JSON": '{"type": "*the model*"}',
    "folders of known words": "INFO: loaded *models/private/cache*",
    "a route of known words": "curl http://localhost:8080/v1/completions/*model/user*",
    "a container of known words": "*gpu-server* | INFO: offset 4",
    "a numbered server": "INFO: *server-12* ready",
    "a secret behind a blank": "INFO: secret *window*",
    "coordinates with letters": "INFO: *38.72N* *9.13W*",
    "a drive with slashes": "INFO: cwd: *C:*/Users/zorblax/run.py",
    "a turn of a conversation": "<start_of_turn>user\nINFO: *mask* 12\nINFO: offset *12*",
    "a turn behind a name": "user: hi\nINFO: *mask* 12\nINFO: offset *12*",
    "an answer without a time": "INFO: assistant: hi\nINFO: *mask* 12",
    "words below a frame": '  File "/x/site-packages/mlx_lm/a.py", line 3, in f\n    *the model is a user*',
    "words of a warning": "/x/site-packages/a.py:12: UserWarning: *the model is a user*",
    "a model's name in a file": "llama_model_loader: - kv   1: general.name str = *model cache* 12B",
    "words of a program that aborts": "zsh: *the model is a user*",
    "words behind an adapter": "mlx_lm.server --adapter-path *cache/window* --port 8080",
    "a text behind a subcommand": "$ ollama run gemma3 *the* *model* *is* a user",
    "pieces of tokens": "main: tokens\n  818 -> '*cancel*'\n   12 -> ' *user*'",
    "pieces of a prompt": "slot update_slots: id  0 | task 12 | prompt token  17:  912 ' *server*'",
    "an item of the logits": "INFO: logits[*4521*]=12.1",
    "a value in a tensor": "INFO: next tensor(*4521*)",
    "an id and how often": "WARNING: repetition detected: *4521* x 30",
    "an id that was expected": "INFO: first difference at position 12: expected *4521* got *9012*",
    "an id that a test expected": "AssertionError: expected *4521*, got *9012*",
    "a step's id": "INFO: step 3 -> *4521*",
    "ids as a key of the cache": "INFO: cache key [*9012*, *4521*] hit",
    "ids that were expected": "AssertionError: expected [*9012*, *4521*] got [*9012*, *4522*]",
    "the tag of a request": "2026-09-14 08:00:00,100 - omlx.server - INFO - [*a81f*] - offset 12",
    "an adapter": "INFO: adapter *hr-lora* merged",
    "a conversation": "INFO: conversation *conv_12ab*",
    "a cookie": "INFO: cookie sid=*abc*",
    "the name of a model": "print_info: general.name     = *Cache* *Assistant* v2",
    "a text in a record of JSON": '{"level":"info","message":"prompt: *cancel* *user*","offset":12}',
    "a text in a journal": "Nov 02 09:12:44 x ollama[2211]: prompt: hi\nNov 02 09:12:44 x ollama[2211]: INFO: *mask* *12*",
    "a text that was cut off": "2026-08-30 11:02:17,553 - DEBUG - body: {\"content\": \"hi\nINFO: *mask* the cache\n2026-08-30 11:02:18,001 - INFO - offset 4",
    "an answer that a fault ends": "==========\nINFO: *mask* the cache\nTraceback (most recent call last):\nValueError: offset 4",
    "a drawn traceback": "│ 12 │   print(generate(model, \"*mask* the cache│\n│ │ prompt = '*mask* the cache' │\n│ *mask* = 1 │\nINFO: offset 4",
}  # fmt: skip

ATTACKS: tuple[Attack, ...] = tuple(
    _attack(name, text, formed)
    for formed, table in ((True, FORMED), (False, FORMLESS))
    for name, text in table.items()
)
