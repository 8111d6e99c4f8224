"""Readers of slides, OpenDocument texts, RTF, subtitles and LaTeX."""
