"""The process that owns jupyter_client.

It holds no API key and no prompt, and its memory is limited. A hostile kernel that floods its sockets ends
the broker and itself, nothing else.
"""
