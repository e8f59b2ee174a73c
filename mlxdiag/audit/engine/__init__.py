"""Who works on which cells: killable workers, their deaths, and going on where a run was stopped."""
