"""The process that owns jupyter_client and libzmq: a job of a confined worker.

It holds no API key and no prompt, its memory is limited, and it can open nothing. A hostile kernel that
floods its sockets ends the broker and itself. One that takes the broker over finds no file, no other socket,
no process and no right there, and none of its own addresses.
"""
