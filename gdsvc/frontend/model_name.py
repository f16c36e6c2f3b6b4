"""Which model a request asks for: the member `model` of its JSON body, of which only the beginning may be in hand."""

from typing import Final

from gdsvc._model_name import model_in
from gdsvc.errors import GdsvcError

MOST_NAME_BYTES: Final = 1024  # of UTF-8; the longest names of models and adapters that are in use have about 200


class BadBody(GdsvcError):
    """The body is no JSON object; the message says what is wrong with it and where."""


class BadModel(BadBody):
    """The body is a JSON object, and `model` in it is no name of a model, or not there."""


def model_of(body: bytes, *, whole: bool) -> str:
    """The model that `body` asks for.

    Where it is not `whole`, only its beginning is there, and it must name the model. Of several members `model` the
    last in sight counts. Raises BadBody.
    """
    try:
        model = model_in(body, whole)
    except TypeError as error:
        raise BadModel(f"model: {error}") from None
    except UnicodeDecodeError:
        raise BadBody("the body is no JSON: model is no UTF-8") from None
    except ValueError as error:
        raise BadBody(f"the body is no JSON object: {error}") from None
    if not model:
        raise BadModel(_absent(model, len(body), whole=whole))
    if len(model) > MOST_NAME_BYTES or len(model.encode()) > MOST_NAME_BYTES:
        raise BadModel(f"model: expected at most {MOST_NAME_BYTES} bytes")
    return model


def _absent(model: str | None, size: int, *, whole: bool) -> str:
    if model is not None:
        return "model: expected a name, not an empty string"
    return "the body names no model" if whole else f"the first {size} bytes of the body name no model"
