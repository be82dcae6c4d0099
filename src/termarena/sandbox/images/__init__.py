"""Images without a daemon: a store of layers that embedded sandboxes share, from registries, archives and builds."""

from termarena.sandbox.images.building import BuildOptions, BuildPlan, Built, build_image, plan_build
from termarena.sandbox.images.config import ImageConfig
from termarena.sandbox.images.getting import PullOptions
from termarena.sandbox.images.names import ImageName
from termarena.sandbox.images.recorded import image_for
from termarena.sandbox.images.shelf import ImageShelf, Pruned, Resolved, Substitute
from termarena.sandbox.images.store import ImageStore, StoredImage

__all__ = [
    "BuildOptions",
    "BuildPlan",
    "Built",
    "ImageConfig",
    "ImageName",
    "ImageShelf",
    "ImageStore",
    "Pruned",
    "PullOptions",
    "Resolved",
    "StoredImage",
    "Substitute",
    "build_image",
    "image_for",
    "plan_build",
]
