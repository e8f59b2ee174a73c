"""The zip: written so that equal parts give equal bytes, read as from a stranger, and checked."""
