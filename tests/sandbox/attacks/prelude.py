# ruff: noqa
# Runs in the kernel before each attack, with `T` (the targets) already bound: what an attacker can find out.
import ctypes, json, os, signal, socket, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
T["around"] = os.path.dirname(os.environ["HOME"])


def through(how=""):
    print("GOT THROUGH", how)


def channel():
    return helpers._channel._socket


def as_frame(body):
    return len(body).to_bytes(4, "little") + body


def frame(body):
    channel().sendall(as_frame(body))


def stopreading():
    type(helpers._channel)._receive = lambda *_: time.sleep(10**6)


def unixlinks():
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            one = socket.socket(fileno=os.dup(fd))
            if fd != channel().fileno() and one.family == socket.AF_UNIX and one.getpeername() is not None:
                found.append(one)
        except OSError:
            continue
    return found


def closesockets():
    for one in unixlinks():
        one.shutdown(socket.SHUT_RDWR)
