"""Read the replies of roots that were trained for other RLM systems."""

from rlm.driver.dialects.reply import read_reply

__all__ = ["read_reply"]
