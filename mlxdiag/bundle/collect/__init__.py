"""What is written into a bundle: read from the inputs and the machine, and told in a project's own order."""
