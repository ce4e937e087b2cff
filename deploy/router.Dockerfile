# The router, and what else needs only spec-router itself: simulated engines, the demo's load.
# Build from the top of the repository: docker build -f deploy/router.Dockerfile .

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY router router
RUN python -m venv /opt/spec-router \
 && /opt/spec-router/bin/python -m pip install --no-cache-dir .

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 router \
 && useradd --uid 10001 --gid router --no-create-home --shell /usr/sbin/nologin router
COPY --from=build /opt/spec-router /opt/spec-router
COPY deploy/healthcheck.py /opt/spec-router/healthcheck.py
ENV PATH=/opt/spec-router/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "/opt/spec-router/healthcheck.py", "8000", "/healthz"]
# No shell between init and the router: SIGTERM reaches it, and it drains.
ENTRYPOINT ["spec-router"]
CMD ["serve", "-c", "/etc/spec-router/router.yaml"]
