"""The page people look at: one self-contained HTML file, over a trace or an audit.

No script, font, picture or style comes from anywhere else. Every picture has its words beside it.
"""
