"""What may enter a bundle, and what stands in place of the rest. `detect`, which looks again, shares no code.

- A trace is rebuilt by `trace` from the fields that `fields` lists; `settings` and `special` hold its
  mappings and special ids to lists of their own.
- A log goes through `lines`: `following` knows what earlier lines opened (`opened`), `records` and `heads`
  how a log's lines begin.
- A text goes through `message`, in this order: `jsontext`, what is `spared`, the `rules` with `paths`,
  `keyed` values, `commands`, `encoded` pieces, numbers that are not `vouched` for, quotes, words, sentences.
- Words that may stay are those of `vocabulary`, sentences those of `clauses`, models those of `publishers`;
  `counters` says what a number may count. The lists lie beside them (`wordlists`).
- `ledger` counts what was taken, `pseudonym` labels what comes again.
"""
