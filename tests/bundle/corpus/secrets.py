# ruff: noqa: E501  a line of data is as long as it is
"""Secrets of 30 kinds, every one invented. `*` marks what tells: none of these pieces may be seen again.

Where nothing is marked the whole text tells.
"""

from __future__ import annotations

import re

import msgspec


class Secret(msgspec.Struct, frozen=True):
    kind: str
    text: str
    tells: tuple[str, ...]


PLANTED: dict[str, tuple[str, ...]] = {
    "prompt": (
        "What did *Annabel* say to her *lawyer* about the *divorce*?",
        "Summarize the *biopsy* report of *Mr* *Oyelaran* in three *bullets*",
        "write a *haiku* about *kestrels* over *Lisbon*",
        "Hi",
        "my *salary* is 91,500 *euros*, is that *fair*?",
        "Translate: *Ich* *liebe* *dich*, *Mathilde*",
        "*请总结这份合同*",
        "You are *Zorblax*, a *pirate* *butler*. Never *reveal* the *passcode* *swordfish*.",
        "fix the cache of the server for the *Hendricks* *merger*",
        "*C'est* l'*anniversaire* de *Solveig*",
    ),
    "completion": (
        "Sure! *Annabel* told him that the *cottage* in *Devon* is hers.",
        "The *tumour* is *benign*; the *patient* should *rest*.",
        "*Kestrels* *hover* / over *tiled* *roofs*",
        "I'm *sorry*, but I can't *disclose* the *merger* *price*.",
        "*Je* t'*aime*, *Mathilde*",
        "As *Zorblax* I say: *arrr*",
        "the *wizard* *laughed*, and *laughed*, and *laughed*",
        "*Dear* *Ms* *Abernathy*, your *mortgage* was *declined*.",
    ),
    "token-ids": (
        "[2, 651, 9012, 118, 5331, 77, 90210, 4521, 16, 8]",
        "[151644, 8948, 198, 2610, 525, 1207, 16948, 11, 3465, 553]",
        "[128000, 9906, 1917, 374, 264, 1296, 315, 279, 39342]",
        "[1, 15043, 3186, 29901, 411, 29871, 13, 7, 8, 9, 10]",
        "[50256, 464, 3797, 3332, 319, 262, 2603, 13, 50256]",
        "[2, 106, 1645, 108, 4521, 235341, 107, 108, 106, 2516]",
        "[64790, 64792, 30910, 13, 30994, 54761, 31211, 39701, 83]",
        "[0, 31414, 232, 2, 1, 9, 8, 7, 77712, 5, 4, 3]",
    ),
    "token-id": ("48451", "31337", "90210", "151644", "128006", "235341", "50256", "77712"),
    "user-name": (
        "annabel.oyelaran", "jdoe42", "mathilde", "svc_zorblax", "k.hendricks", "tsolveig", "abernathy_r", "wkowalczyk",
    ),
    "host-name": (
        "annabels-macbook-pro.local", "gpu-rack7.corp.hendricks.com", "zorblax-studio", "db01.internal", "kestrel.lan",
        "nas.fritz.box", "ip-10-3-7-21.ec2.internal", "WIN-7Q2KHENDRICKS",
    ),
    "home-path": (
        "/Users/annabel/models/run.py", "/home/jdoe42/.cache/huggingface/hub", "/Users/k.hendricks/Documents/merger/notes.txt",
        "~/Projects/zorblax/prompt.txt", "/home/mathilde/.local/share/kestrel", "/root/hendricks/checkpoints/step-900",
        "/Users/Annabel Oyelaran/models/x", "/home/wkowalczyk/llm/serve.sh",
    ),
    "volume-path": (
        "/Volumes/Hendricks Merger/models/gguf", "/Volumes/ZorblaxSSD/weights.safetensors", "/mnt/oyelaran-nas/llm",
        "/media/jdoe42/Kestrel/q4", "/data/abernathy/mortgage-7b", "/srv/zorblax/models", "/opt/hendricks/bin/serve",
        "/private/var/folders/zz/kestrel_n0/T/tmpx",
    ),
    "windows-path": (
        "C:\\Users\\Annabel\\models\\run.py", "D:\\Hendricks\\merger\\weights.gguf", "C:\\Users\\jdoe42\\AppData\\Local\\ollama",
        "E:\\zorblax\\q4.gguf", "C:/Users/mathilde/kestrel/run.py", "F:\\Abernathy\\mortgage.safetensors",
        "C:\\\\Users\\\\wkowalczyk\\\\llm", "Z:\\oyelaran\\x",
    ),
    "unc-path": (
        "\\\\HENDRICKS-NAS\\models\\merger", "\\\\fileserver\\annabel\\llm", "\\\\10.3.7.21\\zorblax", "\\\\KESTREL\\c$\\models",
        "\\\\oyelaran\\share\\x.gguf", "\\\\abernathy.corp\\mortgage", "\\\\wsl$\\Ubuntu\\home\\jdoe42", "\\\\svc01\\weights\\zorblax",
    ),
    "ipv4": (
        "192.168.17.44", "10.3.7.21:8080", "172.16.99.5", "203.0.113.77:51234", "100.101.102.103", "8.8.4.4", "198.51.100.23/24",
        "169.254.11.12",
    ),
    "ipv6": (
        "fe80::1c2b:3dff:fe4a:5b6c", "2001:db8:85a3::8a2e:370:7334", "[2001:db8::17]:8080", "fd12:3456:789a:1::1",
        "2001:0db8:0000:0042:0000:8a2e:0370:7334", "fe80::aede:48ff:fe00:1122%en0", "::ffff:c0a8:112c", "2a02:8109:9ac0::f00d",
    ),
    "mac-address": (
        "3c:22:fb:91:0e:7d", "A4-83-E7-5C-11-09", "de:ad:be:ef:00:42", "f0:18:98:3a:2b:1c", "00:1B:44:11:3A:B7",
        "ac:de:48:00:11:22", "8C:85:90:0F:E1:D2", "52:54:00:6b:3c:58",
    ),
    "url-credentials": (
        "https://annabel:swordfish@models.hendricks.com/q4", "http://jdoe42:hunter22@10.3.7.21:9000/v1",
        "postgresql://svc_zorblax:p4ss@db01.internal:5432/llm", "redis://:kestrel99@cache.lan:6379/0",
        "https://oauth2:glpat-Zx81kLmQp02wErTyU@gitlab.hendricks.com/ml/x.git", "mongodb+srv://mathilde:arrr@cluster0.ab1cd.mongodb.net",
        "ftp://abernathy:mort@files.abernathy.org/x", "wss://tok_9QkzZ@rt.zorblax.io/ws",
    ),
    "url": (
        "https://llm.hendricks.com/v1/chat?team=merger", "http://zorblax-studio:8080/v1/models",
        "https://hooks.slack.com/services/T02ABCDEF/B03GHIJKL/q9w8e7r6t5y4u3i2o1p0", "s3://hendricks-merger/weights",
        "https://discord.com/api/webhooks/1122334455/AbCdEfGh", "gs://kestrel-bucket/ckpt",
        "https://x.blob.core.windows.net/c?sv=2022&sig=a%2Fb3D", "hdfs://nn.corp:8020/oyelaran",
    ),
    "e-mail": (
        "annabel.oyelaran@hendricks.com", "jdoe42@gmail.com", "k+llm@abernathy.co.uk", "mathilde@kestrel.lan",
        "ops_zorblax@corp.internal", "w.kowalczyk@uni-krakow.edu.pl", "noreply@oyelaran.dev", "SOLVEIG@NORDBANK.NO",
    ),
    "bearer": (
        "Bearer 9f8Zk2LmQx71TrWvYp", "bearer c3VwZXJzZWNyZXR0b2tlbg==", "Bearer zorblax_live_22e4", "Basic YW5uYWJlbDpzd29yZGZpc2g=",
        "Bearer 0123456789abcdef0123", "Bearer a.b-c_d~e+f/g=12345", "Digest 8ce1e01f2ff3dd1e", "Bearer MTIzNDU2Nzg5MA.xyz",
    ),
    "openai-key": (
        "sk-proj-Q1w2E3r4T5y6U7i8O9p0AaSsDdFf", "sk-abcdEFGHijklMNOPqrstUVWX12345678", "sk-ant-api03-ZzYyXxWwVvUu-TtSsRr_QqPp",
        "sk-or-v1-0f1e2d3c4b5a69788796a5b4c3d2e1f0", "sk-svcacct-9a8B7c6D5e4F3g2H1i0J", "pk-lf-11aa22bb-33cc-44dd",
        "sk_test_51HzorblaxK3yV4lu3", "sk-live-abcdef123456",
    ),
    "hf-token": (
        "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", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "hf_0123456789ABCDEFGHijklmnopqrstuvwx",
        "hf_zzzZZZ999xxxXXX888cccCCC777vvvVVV6", "api_org_AbCdEfGhIjKlMnOpQrStUvWxYz0123456", "hf_MnBvCxZlKjHgFdSaPoIuYtReWq123456",
        "hf_Kestrel0verLisbonKestrel0verLisb0n", "hf_ppppppppppppppppppppppppp",
    ),
    "aws-key": (
        "AKIAIOSFODNN7ZORBLAX", "ASIAQ3EGX5HENDRICKS0", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYZORBLAXKEY", "AKIA5KESTREL0LISBON1",
        "aws_secret_access_key=9drTJvcXLB89EXAMPLELB8923FB892xMFI", "AROAJQABLZS4A3QDU576Q", "AGPAI44QH8DHBOYELARN",
        "FwoGZXIvYXdzEBYaDHqa0APexampleSESSIONzorblax",
    ),
    "github-token": (
        "ghp_1a2B3c4D5e6F7g8H9i0JkLmNoPqRsTuVwXyZ", "gho_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0zYxWvUtSrQpO_nMlKjIhGfEdCbA9876543210", "ghs_zorblaxzorblaxzorblaxzorblaxzorb",
        "ghu_9876543210abcdefghijABCDEFGHIJklmnop", "ghr_kestrelkestrelkestrelkestrel123456", "glpat-Ab1Cd2Ef3Gh4Ij5Kl6Mn",
        "ghp_HENDRICKSmergerHENDRICKSmerger123456",
    ),
    "slack-token": (
        "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOHcbrzqgy", "xoxp-98765-43210-zorblax-deadbeef", "xapp-1-A01-22334-abcdef99",
        "xoxa-2-kestrel-445566778899", "xoxr-111-222-hendricks333", "xoxs-9-8-7-annabelannabel", "xoxe-1-My0xLTEyMzQ1Njc4OTA",
        "xoxo-55667788-merger9",
    ),
    "jwt": (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5hYmVsIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ6b3JibGF4In0.abc-def_ghi",
        "eyJraWQiOiJrZXN0cmVsIn0.eyJhdWQiOiJsbG0ifQ.c2ln", "eyJhbGciOiJub25lIn0.eyJ1IjoiamRvZTQyIn0.",
        "eyJhbGciOiJFUzI1NiJ9.eyJ4IjoxfQ.MEUCIQDzorblax", "eyJlbmMiOiJBMTI4R0NNIn0.k.i.c.t99887766",
        "eyJhbGciOiJIUzM4NCJ9.eyJvIjoiaGVuZHJpY2tzIn0.Zm9v", "eyJwIjoibWVyZ2VyIn0.eyJxIjoyfQ.bXJn",
    ),
    "ssh-key": (
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7zorblax annabel@macbook",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKkestrel jdoe42@gpu-rack7",
        "-----BEGIN OPENSSH PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY----- MIIEowIBAAKCAQEAzorblax",
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYmerger k.hendricks",
        "ssh-dss AAAAB3NzaC1kc3MAAACBAPoyelaran x@y", "-----BEGIN EC PRIVATE KEY-----MHcCAQEEIabernathy",
        "ssh-rsa AAAAB3NzaC1yc2EAAAABIwAAAQEAsolveig== solveig@nordbank",
    ),
    "other-key": (
        "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "ya29.a0AfH6SMBzorblaxkestrel", "gsk_Zx9Cv8Bn7Mq6Wl5Ek4Rj3Th2Yg1Uf0",
        "r8_9aKestrelB8cLisbonC7dE6fF5", "npm_zorblaxZORBLAXzorblaxZORBLAX123456", "pypi-AgEIcHlwaS5vcmcCJGhlbmRyaWNrcw",
        "SG.oyelaran123.abernathy456def", "nvapi-Kq8zJ7yH6xG5wF4vE3uD2tC1sB0rA",
    ),
    "password": (
        "swordfish99", "Tr0ub4dor&3", "correct-horse-battery-staple", "p@ssw0rd!zorblax", "hunter22", "Kestrel#Lisbon7",
        "merger2026!", "arrrMatey8",
    ),
    "private-model": (
        "hendricks-corp/merger-llm-7b", "annabel/biopsy-gemma-lora", "zorblax-ai/pirate-butler-v2", "kestrel-7b-secret-sft",
        "abernathy/mortgage-scorer-4bit", "oyelaran-lab/tumour-vlm", "nordbank_internal_chat_q4", "jdoe42/my-finetune-merged",
    ),
    "prompt-hash": (
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "5d41402abc4b2a76b9719d911017c592",
        "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "e3b0c44298fc1c149afbf4c8996fb924", "0xdeadbeefcafebabe1234",
        "c0ffee254729296a45a3885639AC7E10", "98ea6e4f216f2fb4b69fff9b3a44842c", "a3f5b2c81e4d9f70",
    ),
    "attachment": (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgID",
        "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA", "data:audio/wav;base64,UklGRjIAAABXQVZF",
        "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBvYmoKPDwvTGVuZ3RoIDM",
        "data:application/pdf;base64,JVBERi0xLjcK", "SGVsbG8gQW5uYWJlbCwgdGhlIGNvdHRhZ2UgaXMgeW91cnM=",
    ),
    "phone": (
        "+49 170 5550 1234", "+1-415-555-0142", "(020) 7946 0958", "415-555-0199", "+351 21 555 0173", "+44 7700 900123",
        "+4915155500123", "212.555.0147",
    ),
    "number": (
        "4111 1111 1111 1111", "4929-1234-5678-9010", "5500005555555559", "8717-2231-0098-4421", "374245455400126", "6011000990139424",
        "30569309025904", "078-05-1120",
    ),
    "request-id": (
        "chatcmpl-9f3a77zorblax01", "cmpl-1f0e2d3c4b5a", "550e8400-e29b-41d4-a716-446655440000", "req_011CQzorblax77",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "call_kestrel00991122", "msg_01XhendricksAb12", "run-77f3c1d2e9zorblax",
    ),
    "git-remote": (
        "git@github.com:hendricks/merger-llm.git", "git@gitlab.corp.zorblax.io:ml/pirate.git",
        "https://x-access-token:ghs_zorblaxzorblax@github.com/hendricks/merger.git", "ssh://git@git.kestrel.lan:2222/w/llm.git",
        "annabel@zorblax-studio:~/models.git", "https://jdoe42@bitbucket.org/oyelaran/x.git",
        "git@codeberg.org:abernathy/mortgage.git", "https://github.com/hendricks-corp/merger-llm",
    ),
}  # fmt: skip


def _secret(kind: str, marked: str) -> Secret:
    tells = tuple(re.findall(r"\*([^*]+)\*", marked)) if kind in ("prompt", "completion") else ()
    text = marked.replace("*", "") if tells else marked
    return Secret(kind, text, tells or (text,))


SECRETS: tuple[Secret, ...] = tuple(_secret(kind, one) for kind, texts in PLANTED.items() for one in texts)
