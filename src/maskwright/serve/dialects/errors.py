"""Bodies of errors: {"error", "error_type"} as Text Embeddings Inference, or below /v1 as OpenAI."""

from __future__ import annotations

from typing import Any

from ..refusals import Refused

OPENAI = "/v1/"
TEI_TYPES = {400: "Empty", 413: "Validation", 422: "Validation", 424: "Backend", 429: "Overloaded", 503: "Unhealthy"}
OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
OPENAI_CODES = {"not_found": "not_found", "key": "invalid_api_key", "size": "too_large", "queue_full": "queue_full"}
AS_400 = (422, 424)  # statuses that OpenAI's routes have as 400


def is_openai(path: str) -> bool:
    """Whether a path answers in OpenAI's form."""
    return path.startswith(OPENAI)


def status_of(refused: Refused, path: str) -> int:
    """Returns the HTTP status on this path."""
    return 400 if is_openai(path) and refused.status in AS_400 else refused.status


def error_body(refused: Refused, path: str) -> dict[str, Any]:
    """Returns the body on this path."""
    if is_openai(path):
        kind = OPENAI_TYPES.get(refused.status, "server_error" if refused.status >= 500 else "invalid_request_error")
        code = "model_not_found" if refused.param == "model" else OPENAI_CODES.get(refused.reason)
        return {"error": {"message": refused.sentence, "type": kind, "param": refused.param, "code": code}}
    kind = TEI_TYPES.get(refused.status, "Validation" if refused.status < 500 else "Backend")
    return {"error": refused.sentence, "error_type": kind}
