"""Folders of images of one size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deepnmf.data.dataset import DataError, Dataset
from deepnmf.data.limits import check_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGES = (".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".tif", ".tiff", ".gif")
DEEP = ("I", "F")
"""Modes of 16-bit and floating-point greys, which stay as they are. Colours become 8-bit greys."""


def read_images(folder: Path) -> Dataset:
    """One sample per image of a folder; the names of sub-folders are the labels.

    Sizes are read from the headers, so no image is decoded before all of them are known to fit.
    """
    files = sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in IMAGES and file.is_file()
    )
    if not files:
        raise DataError(
            f"{folder}: holds no images ({', '.join(IMAGES)}). For texts, give --text, or use "
            "read_texts."
        )
    shape: tuple[int, int] | None = None
    rows = []
    for file in files:
        try:
            with _opened(file) as image:
                shape = shape or _checked_shape(folder, image, len(files))
                if (image.height, image.width) != shape:
                    raise DataError(
                        f"{file}: is {image.height} x {image.width} pixels, {files[0]} is "
                        f"{shape[0]} x {shape[1]}. Bring all images to one size first."
                    )
                deep = image.mode.startswith(DEEP)
                rows.append(np.asarray(image if deep else image.convert("L")).ravel())
        except DataError:
            raise
        except Exception as problem:
            raise DataError(f"{file}: could not be read as an image ({problem}).") from problem
    labels = [file.parent.relative_to(folder).as_posix() for file in files]
    return Dataset(
        np.stack(rows),
        np.asarray(labels) if any(label != "." for label in labels) else None,
        image_shape=shape,
        sample_names=np.asarray([file.relative_to(folder).as_posix() for file in files], object),
        name=folder.name,
    )


def _opened(file: Path) -> Image:
    """An image whose header is read. Very large ones are refused by Pillow itself."""
    import warnings

    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        return Image.open(file)


def _checked_shape(folder: Path, image: Image, count: int) -> tuple[int, int]:
    """The rows and columns of the first image, if so many images of this size fit into memory.

    The pixels of a row are in memory twice while the rows are joined.
    """
    pixel = 4 if image.mode.startswith(DEEP) else 1
    check_bytes(folder, 2.0 * count * image.height * image.width * pixel)
    return image.height, image.width
