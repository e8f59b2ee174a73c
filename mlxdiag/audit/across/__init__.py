"""Two libraries on the same weights: every schedule that both can run, compared position by position.

transformers defines what a config means. What differs is traced to the first layer and the first value that
differ, and told apart as arithmetic or meaning. Each difference is rule MD403's.
"""
