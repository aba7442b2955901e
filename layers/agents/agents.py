"""The agents of this deployment: the example support agent, until you replace it.

Put your own agents here (and what they import beside this file) and name them in `agents`; the first one answers
sessions that name none. `PERDURE_AGENTS` in `template.yaml` says `agents:agents`: this module, this attribute.
"""

import os
import tempfile
from pathlib import Path

# The example's books. Lambda can write to its temporary folder only, which every instance has for itself: enough to
# try things out, and one more reason to replace the example.
os.environ.setdefault("PERDURE_SHOP_FILE", str(Path(tempfile.gettempdir()) / "perdure-shop.jsonl"))

from perdure.agents.example import support

agents = [support]
