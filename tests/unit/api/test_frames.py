"""What a viewer may say over the WebSocket is described where the error about it says."""

from pathlib import Path
from typing import get_args

import pytest

from perdure.api.frames import Frame, read_frame
from perdure.errors import InvalidRequestError

ROOT = Path(__file__).parents[3]

KINDS = [get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(get_args(Frame)[0])]


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_is_described_on_the_page_that_an_error_names(kind: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_frame('{"type": "subscribe"}')
    page = next(word for word in str(refused.value).split() if word.startswith("docs/"))
    section = (ROOT / page).read_text().partition("## The WebSocket")[2]

    assert f'"type": "{kind}"' in section or f"`{kind}`" in section
