# An image with the command `rlm`, run by an ordinary user.
#
#   docker build -t rlm .
#   docker run --rm --security-opt seccomp=unconfined --security-opt apparmor=unconfined rlm
#
# Without arguments it runs the demo: a question about Python's standard library, which needs no key. Code that
# models write is confined inside the container, in namespaces of its own. The profiles that Docker gives every
# container refuse these, hence the two flags. `rlm doctor` says whether they hold. See docs/container.md.

FROM python:3.13-slim AS build
WORKDIR /src
RUN pip install --no-cache-dir hatchling
COPY pyproject.toml README.md LICENSE ./
COPY rlm rlm
RUN python -m hatchling build -t wheel -d /dist

FROM python:3.13-slim
COPY requirements/base.lock /tmp/base.lock
RUN pip install --no-cache-dir --require-hashes -r /tmp/base.lock && rm /tmp/base.lock
RUN --mount=type=bind,from=build,source=/dist,target=/dist pip install --no-cache-dir --no-deps /dist/*.whl
# The journal and the caches: mount volumes here to keep them.
RUN useradd --create-home rlm && install -d -o rlm -g rlm /home/rlm/.local/state/rlm /home/rlm/.cache/rlm
USER rlm
WORKDIR /data
ENTRYPOINT ["rlm"]
CMD ["ask", "What does heapq.merge do?", "/usr/local/lib/python3.13", "--exclude", "site-packages", "--exclude", "__pycache__"]
