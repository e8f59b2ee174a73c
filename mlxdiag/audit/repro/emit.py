"""A plan as the lines of a script: the library's public calls, in the order of the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from mlxdiag.audit.judge.drafted import end
from mlxdiag.audit.repro import drafts
from mlxdiag.audit.repro.caller import cache_owners
from mlxdiag.audit.repro.variables import Group, Variables, name_of
from mlxdiag.models.adapter import Instance
from mlxdiag.replay import tape
from mlxdiag.replay.ops import Adopt, Cut, Event, Evict, Feed, Forward, Op, Plan, Regroup
from mlxdiag.replay.oracle import replay_tape
from mlxdiag.replay.padding import Announced, announced
from mlxdiag.replay.prompts import Prompt


class Emitter:
    """Writes the lines, one op after the other."""

    def __init__(self, plan: Plan, prompts: Mapping[str, Prompt], instance: Instance, fresh: str) -> None:
        self.plan = plan
        self.prompts = prompts
        self.instance = instance
        self.fresh = fresh
        self._variables = Variables(fresh)
        self.lines, self.used = self._variables.lines, self._variables.used
        self.samples = False
        """A token was sampled from another row than the last real one."""
        self._copies: dict[str, str] = {}
        self._tapes: dict[str, tape.Tape] = {}

    def emit(self) -> list[str]:
        """The body of `schedule(run)`."""
        told = announced(self.plan.ops)
        if self.plan.scheduler.store == "trie":
            self.lines.append("store = caches.LRUPromptCache()")
        drafted = end(self.plan) if self.plan.scheduler.looped else 0
        if drafted:
            self._speculate()
        for place, op in enumerate(self.plan.ops):
            if place >= drafted:
                self._op(op, place, told)
            replay_tape(op, self._tapes)
        return self.lines

    def _speculate(self) -> None:
        seq = self.plan.forwards[0].feeds[0].seq
        self.used.setdefault("speculate")
        self.lines += drafts.lines(self.plan, self.prompts[seq], seq, name_of(seq), self.fresh)
        self._variables.groups.append(Group((seq,), name_of(seq), fed=True))

    def _op(self, op: Op, place: int, told: Mapping[int, Announced]) -> None:
        if isinstance(op, Forward):
            self._forward(op, told.get(place))
        elif isinstance(op, Cut):
            self._cut(op)
        elif isinstance(op, Evict):
            for group in self._variables.groups_of(op.seqs):
                self._variables.call("evict", f"({group.name}, {op.cap}, {op.sinks})")
        elif isinstance(op, Adopt):
            self._adopt(op, place)
        elif isinstance(op, Regroup):
            if op.phase == "filter" and self._variables.whole_batch(op.seqs):
                self._variables.keep(self._variables.group(op.seqs[0]), op.seqs)
            else:
                self._variables.together(op.seqs, batched=True)
        elif isinstance(op, Event):
            self._event(op)

    # -- forwards ---------------------------------------------------------------------------------------

    def _forward(self, op: Forward, told: Announced | None) -> None:
        seqs = tuple(feed.seq for feed in op.feeds)
        self._say(op)
        copies = {seq: self._copies.pop(seq) for seq in seqs if seq in self._copies}
        if len(seqs) == 1 and not op.batched and copies:
            self._variables.leave(seqs[0])
            self._variables.groups.append(Group(seqs, copies[seqs[0]], fed=True))
        for seq in op.again:
            self._begin_again(seq, op)
        rows = ", ".join(f"{feed.seq!r}: {self._row(feed)}" for feed in op.feeds)
        if op.cacheless:
            cache = self._without_cache(op)
            self.lines += [f"run.feed({cache}, {{{rows}}}{self._handing(op)}{self._sampled(op)})"]
            return
        group = self._variables.together(seqs, batched=op.batched)
        self._padding(op, group, told)
        handed = self._handing(op)
        self.lines += [f"run.feed({group.name}, {{{rows}}}{handed}{self._sampled(op)})"]
        group.fed = True

    def _begin_again(self, seq: str, op: Forward) -> None:
        """All of the sequence is fed once more."""
        if seq in self._tapes and self._tapes[seq].held:
            self.lines.append(f"run.held[{seq!r}] = []")
        if not op.cacheless:
            self._variables.leave(seq)

    def _without_cache(self, op: Forward) -> str:
        """What stands in the place of a cache."""
        return "None"

    def _padding(self, op: Forward, group: Group, told: Announced | None) -> None:
        """What the caches hear of padding before it is fed."""
        left = [feed.left for feed in op.feeds]
        if op.batched and any(left) and not group.fed:
            self._variables.call("pad_left", f"({group.name}, {left})")
        if told is not None:
            self._variables.call("announce", f"({group.name}, {list(told.lengths)}, {list(told.right)})")

    def _handing(self, op: Forward) -> str:
        """More arguments of `run.feed`: masks that the recorded scheduler handed in."""
        given = [
            {
                "builder": mask.builder,
                "offset": mask.offset,
                "q": mask.shape[0],
                "m": mask.shape[1],
                "real": mask.real,
                "window": mask.window,
                "caches": self._places(mask.family),
            }
            for mask in op.callers
        ]
        given += [
            {"builder": "causal" if one.causal else "none", "caches": self._places(one.family)}
            for one in op.unmasked
        ]
        return f", masks={given!r}" if given else ""

    def _sampled(self, op: Forward) -> str:
        """Columns that the recorded server sampled from, where they are not the last real token's."""
        odd = {
            feed.seq: at
            for feed, at in zip(op.feeds, op.sampled, strict=False)
            if at is not None and feed.tokens and at != feed.left + feed.tokens - 1
        }
        self.samples |= bool(odd)
        return f", sampled={odd!r}" if odd else ""

    def _places(self, family: str | None) -> list[int] | None:
        """Places in the list of caches that belong to a layer family; None for all of them."""
        if family is None:
            return None
        owners = cache_owners(self.instance)
        return [place for place, spec in enumerate(owners) if spec is not None and spec.family == family]

    def _row(self, feed: Feed) -> str:
        ids = self.prompts[feed.seq].of(feed.codes)
        shown = ["PAD" if code == tape.PAD else str(int(i)) for code, i in zip(feed.codes, ids, strict=True)]
        return f"[{', '.join(shown)}]"

    def _say(self, op: Forward) -> None:
        fed = []
        for feed in op.feeds:
            padding = f" and {feed.left + feed.right} padding" if feed.left + feed.right else ""
            fed.append(f"{feed.tokens} of {feed.seq} from position {feed.start}{padding}")
        self.lines.append(f"# {op.phase}: {'; '.join(fed)}")

    # -- cache events -----------------------------------------------------------------------------------

    def _cut(self, op: Cut) -> None:
        for group in self._variables.groups_of(op.seqs):
            if op.kept:
                self._variables.call("trim_some", f"({group.name}, {self._given_back(op)})")
            elif op.phase == "rollback":
                self._roll_back(group, op.tokens)
            else:
                self._variables.call("trim", f"({group.name}, {op.tokens})")
        for seq in op.seqs:
            real = sum(code != tape.PAD for code in self._tapes[seq].held[-op.tokens :]) if op.tokens else 0
            if real:
                self.lines.append(f"run.take_back({seq!r}, {real})")

    def _roll_back(self, group: Group, tokens: int) -> None:
        """Speculative decoding does not ask: it looks at the caches once, before it begins."""
        self.lines.append(f"trim_prompt_cache({group.name}, {tokens})  # rejected drafts")

    def _given_back(self, op: Cut) -> list[int]:
        families = ["" if spec is None else spec.family for spec in cache_owners(self.instance)]
        return [max(op.tokens - op.kept.get(family, op.kept.get("", 0)), 0) for family in families]

    def _adopt(self, op: Adopt, place: int) -> None:
        name = name_of(op.seq)
        self._variables.leave(op.seq)
        if self.plan.scheduler.store == "trie":
            self._fetch(op, place, name)
        else:
            held = tape.Tape(op.seq)
            held.adopt(op.entry, op.matched)
            ids = [int(i) for i in self.prompts[op.seq].of(held.held)]
            self.lines += [
                f"# a stored prompt of {op.entry} tokens, of which {op.matched} match; a copy goes on",
                f"stored = {self.fresh}",
                f"run.feed(stored, {{{op.seq!r}: {ids}}})",
                f"{name} = copy.deepcopy(stored)",
            ]
            if op.trimmed:
                self._variables.call("trim", f"({name}, {op.trimmed})")
                self.lines.append(f"run.take_back({op.seq!r}, {op.trimmed})")
        self._variables.groups.append(Group((op.seq,), name, fed=True))

    def _fetch(self, op: Adopt, place: int, name: str) -> None:
        later = (o for o in self.plan.ops[place:] if isinstance(o, Forward))
        feeds = (feed for o in later for feed in o.feeds if feed.seq == op.seq)
        codes = [code for feed in islice(feeds, 1) for code in feed.codes if code >= 0]
        codes = [] if op.whole else codes
        ids = [int(i) for i in self.prompts[op.seq].of([*range(op.matched), *codes])]
        owner, _ = self.plan.shared.get(op.seq, (op.seq, 0))
        self.lines += [
            f"# the server asks its prompt cache for a prompt of which {op.matched} tokens are stored",
            f"{name}, rest = store.fetch_nearest_cache('model', {ids})",
        ]
        if op.whole:
            self._begin(op, name, ids, owner)
            return
        self.lines += [
            f"if {name} is None or len(rest) > {len(ids) - (op.entry - op.trimmed)}:",
            "    raise Refused('the prompt cache gives back less, and the rest is prefilled again')",
            f"run.held[{op.seq!r}] = run.held[{owner!r}][: {len(ids)} - len(rest)]",
        ]
        if self.plan.scheduler.looped:
            self.lines += [
                f"run.held[{op.seq!r}].append(({ids[op.matched - 1]}, None))  # emitted, and never fed",
                f"{name} = {name}[: len(given) // 2]  # the others are the draft's",
            ]

    def _begin(self, op: Adopt, name: str, ids: list[int], owner: str) -> None:
        """A request of which nothing is left to feed, unless the library keeps something back."""
        self.lines += [
            f"if {name} is None:",
            "    raise Refused('the prompt cache gives nothing back, and all is prefilled again')",
            f"run.held[{op.seq!r}] = run.held[{owner!r}][: {len(ids)} - len(rest)]",
        ]
        self._variables.call("begin", f"({name}, {ids}, rest)")
        self.lines += ["if rest:", f"    run.feed({name}, {{{op.seq!r}: rest}})"]

    def _event(self, op: Event) -> None:
        if op.phase == "save":
            self._save(op)
        elif op.phase == "extract":
            for seq in op.seqs:
                group = self._variables.find(seq)
                if group is not None and group.batched and group.fed:
                    self._copies[seq] = f"copy_of_{name_of(seq)}"
                    row = group.seqs.index(seq)
                    self._variables.call("extract", f"({group.name}, {row})", f"{self._copies[seq]} = ")
        else:
            for group in self._variables.groups_of(op.seqs):
                if op.phase == "finalize":
                    self._variables.call("finalize", f"({group.name})")
                elif op.phase == "load":
                    self._variables.call("through_a_file", f"({group.name})", f"{group.name} = ")
                elif op.phase == "quantize":
                    self._variables.call("quantize", f"({group.name}, {op.bits or 8})")

    def _save(self, op: Event) -> None:
        if self.plan.scheduler.store != "trie":
            return
        for seq in op.seqs:
            group = self._variables.find(seq)
            held = self._copies.get(seq) or (group.name if group is not None else None)
            if held is not None:
                own = list(self._tapes[seq].own)
                if self.plan.scheduler.looped:
                    # As the server stores it: under all that was emitted, the last of which was never fed.
                    own, held = [*own, len(own)], "given"
                ids = [int(i) for i in self.prompts[seq].of(own)]
                self.lines.append(f"store.insert_cache('model', {ids}, {held})")
