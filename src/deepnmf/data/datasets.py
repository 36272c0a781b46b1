"""The data sets of the paper and similar ones, by name.

A file is looked for in the folder that DEEPNMF_DATA names, then in the user's cache. If it is in
neither, it is fetched once and checked by its sha256.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deepnmf.data.dataset import DataError, Dataset

FOLDER = "DEEPNMF_DATA"


@dataclass(frozen=True)
class Remote:
    """A public file: its address and its hash."""

    file: str
    address: str
    sha256: str


_RAW = "https://raw.githubusercontent.com"
PIE = Remote(
    "PIE_pose27.mat",
    f"{_RAW}/trigeorgis/Deep-Semi-NMF/832ec98f2a0df09c7d2f49474e7c2b8c99a7986c/data/PIE_pose27.mat",
    "035fdd73d5f4234d958b3c88f20bd8aae3871080246139896a23e61487134680",
)
ORL = Remote(
    "att_faces.zip",
    f"{_RAW}/Aakash-Tripathi/FaceRecognitionDCT/aea95157b56b52a5bb8b73c896c5e8174ae2240d/att_faces.zip",
    "8a9f402a439298dcc8b1557790dcca3d4103617ad320a8cf879fc021a530e567",
)
REUTERS = Remote(
    "Reuters21578.mat",
    f"{_RAW}/hiroyuki-kasai/NMFLibrary/ed44132dfe1b5495df685006b42259f0bd16bea3"
    "/applications/document_clustering/Reuters21578.mat",
    "2e442026efc64cfbcd3a531b4bc99b21eed6c5463276dbfa69d096f91dd5c245",
)
WORM = Remote(
    "worm_neuron_cell.h5",
    f"{_RAW}/ttgump/scDeepCluster/ff7f29d003be7112c6a3dcab37c44d461423647d"
    "/scRNA-seq%20data/worm_neuron_cell.h5",
    "4f2a3c4b8492bcd11d957a8a74098ba258c271d714718c175854a7c44b1e31e6",
)


SAMSON = Remote(
    "samson_dataset.mat",
    f"{_RAW}/hanzhu97702/IEEE_TGRS_CyCU-Net/c4feec2c8126c760eb517713a55ee757c2b3552f"
    "/data/samson_dataset.mat",
    "1e8c96dc7da75443783e91d6ad0305715ab0862e3eb2ed48bc0ccf9c02656f84",
)


def load_digits() -> Dataset:
    """Handwritten digits: 1797 samples of 8 x 8 pixels, 0 to 16, 10 classes (no file needed)."""
    from sklearn.datasets import load_digits as bundled

    digits = bundled()
    return Dataset(digits.data, digits.target, image_shape=(8, 8), name="digits")


def load_pie() -> Dataset:
    """CMU PIE, pose 27: 2856 faces of 32 x 32 pixels, 0 to 255, 68 people with 42 images each."""
    from scipy.io import loadmat

    content = loadmat(fetch(PIE))
    # Stored column by column, as in MATLAB: transposed, the faces are upright.
    X = content["fea"].reshape(-1, 32, 32).transpose(0, 2, 1).reshape(-1, 1024)
    return Dataset(
        np.ascontiguousarray(X),
        content["gnd"].ravel().astype(int),
        image_shape=(32, 32),
        name="pie",
    )


def load_orl() -> Dataset:
    """ORL (AT&T) faces: 400 faces of 112 x 92 pixels, 0 to 255, 40 people with 10 images each.

    The images are by the Olivetti Research Laboratory, which asks to be credited.
    """
    from PIL import Image

    images, people = [], []
    with zipfile.ZipFile(fetch(ORL)) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(".pgm")]
        # …/s12/3.pgm: person 12, image 3.
        numbered = [(int(Path(n).parent.name[1:]), int(Path(n).stem), n) for n in names]
        for person, _, name in sorted(numbered):
            with Image.open(io.BytesIO(archive.read(name))) as image:
                images.append(np.asarray(image).ravel())
            people.append(person)
    return Dataset(np.stack(images), np.asarray(people), image_shape=(112, 92), name="orl")


def load_reuters() -> Dataset:
    """Reuters-21578: counts of 18933 terms in 8293 documents (sparse), 65 classes, very uneven.

    The terms themselves are not in the file: features are named by their number.
    """
    from scipy.io import loadmat
    from scipy.sparse import csr_matrix

    content = loadmat(fetch(REUTERS))
    X = csr_matrix(content["fea"], dtype=np.float64)
    names = np.asarray([f"term {number}" for number in range(1, X.shape[1] + 1)], dtype=object)
    return Dataset(X, content["gnd"].ravel().astype(int), feature_names=names, name="reuters")


def load_worm() -> Dataset:
    """Neurons of a worm (C. elegans): counts of 13488 genes in 4186 cells (sparse), 10 types.

    The names of genes and types are not in the file: both are named by their number.
    """
    from scipy.sparse import csr_matrix

    try:
        import h5py
    except ImportError as problem:
        raise DataError("load_worm needs h5py: pip install 'deepnmf[files]'.") from problem
    with h5py.File(fetch(WORM), "r") as file:
        X = csr_matrix(file["X"][:])  # one chunk of the file
        types = file["Y"][:].astype(int)
    genes = np.asarray([f"gene {number}" for number in range(1, X.shape[1] + 1)], dtype=object)
    cells = np.asarray([f"cell {number}" for number in range(1, X.shape[0] + 1)], dtype=object)
    return Dataset(X, types, feature_names=genes, sample_names=cells, name="worm")


def load_samson() -> Dataset:
    """Samson: 9025 spectra of 156 bands, 401 to 889 nm, an image of 95 x 95 pixels of soil, trees
    and water.

    `columns` has the share of each material in every pixel and `references` its spectrum, as they
    were measured; the label of a pixel is the material of which it has most.
    """
    from scipy.io import loadmat

    content = loadmat(fetch(SAMSON))
    height = width = 95

    def upright(pixels: np.ndarray) -> np.ndarray:
        # Stored column by column, as in MATLAB.
        return np.ascontiguousarray(pixels.reshape(width, height, -1).swapaxes(0, 1)).reshape(
            height * width, -1
        )

    materials = ("soil", "tree", "water")
    shares = upright(content["A"].T)
    return Dataset(
        upright(content["Y"].T),
        np.asarray(materials)[shares.argmax(1)],
        feature_names=np.linspace(401, 889, 156).round(1),
        columns=dict(zip(materials, shares.T, strict=True)),
        name="samson",
        grid=(height, width),
        axis_label="wavelength (nm)",
        references=dict(zip(materials, content["M"].T, strict=True)),
    )


DATASETS: dict[str, tuple[Callable[[], Dataset], Remote | None]] = {
    "digits": (load_digits, None),
    "pie": (load_pie, PIE),
    "orl": (load_orl, ORL),
    "reuters": (load_reuters, REUTERS),
    "worm": (load_worm, WORM),
    "samson": (load_samson, SAMSON),
}


def locate(remote: Remote) -> Path | None:
    """Where the file is on this machine, or None. A file with other content is refused."""
    named = os.environ.get(FOLDER)
    for folder in [*([Path(named)] if named else []), cache_folder()]:
        path = folder / remote.file
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest != remote.sha256:
                raise DataError(
                    f"{path}: is not the expected file (sha256 {digest[:12]}…, expected "
                    f"{remote.sha256[:12]}…). Remove it and fetch it again."
                )
            return path
    return None


def fetch(remote: Remote) -> Path:
    """The path of the file, which is fetched into the cache if it is not on this machine."""
    path = locate(remote)
    if path is not None:
        return path
    import pooch

    pooch.get_logger().setLevel("WARNING")
    try:
        return Path(
            pooch.retrieve(
                remote.address,
                known_hash=f"sha256:{remote.sha256}",
                fname=remote.file,
                path=cache_folder(),
            )
        )
    except Exception as problem:
        raise DataError(
            f"{remote.file} could not be fetched from {remote.address} "
            f"({type(problem).__name__}). Download it yourself and set {FOLDER} to its folder."
        ) from problem


def cache_folder() -> Path:
    """The folder of the user's cache."""
    import pooch

    return Path(pooch.os_cache("deepnmf"))
