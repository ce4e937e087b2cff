# One engine: SGLang with the launcher, which measures free GPU memory at every start and computes
# --mem-fraction-static from it. Build from the top of the repository:
# docker build -f deploy/engine.Dockerfile --build-arg SGLANG_IMAGE=lmsysorg/sglang:v0.5.23 .

ARG SGLANG_IMAGE=lmsysorg/sglang:v0.5.23
FROM ${SGLANG_IMAGE}

# An environment of its own: SGLang's packages keep their versions, and python3 on the PATH stays SGLang's.
# Without pip in it, for which the image need not have ensurepip.
WORKDIR /opt/spec-router
COPY pyproject.toml README.md LICENSE src/
COPY router src/router
RUN python3 -m venv --without-pip /opt/spec-router \
 && python3 -m pip --python /opt/spec-router/bin/python install --no-cache-dir ./src "nvidia-ml-py==13.*"
COPY deploy/healthcheck.py healthcheck.py

# The launcher's folder is below it: notes of processes, and the engines' logs.
ENV XDG_STATE_HOME=/var/lib/spec-router PYTHONUNBUFFERED=1
HEALTHCHECK --interval=15s --timeout=5s --start-period=40m --retries=3 \
  CMD ["/opt/spec-router/bin/python", "/opt/spec-router/healthcheck.py", "30001", "/ready"]
ENTRYPOINT ["/opt/spec-router/bin/spec-router"]
CMD ["launch", "--engine", "speculative", "-c", "/etc/spec-router/router.yaml"]
