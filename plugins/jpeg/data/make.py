"""Writes kinds.tar, JPEGs of every kind that Pillow can write, with labels; kinds.rgb, what Pillow makes of them:
arrays of 16 x 16 pixels, resized and cut out as torchvision does; and drafts.rgb, arrays of 14 x 14, 7 x 7 and 3 x 3
pixels of images that were decoded with `draft`: most at a half, a quarter and an eighth of their size.

    pip install pillow==13.0.0 numpy==2.4.6
    python make.py
"""

import io
import pathlib
import tarfile

import numpy
from PIL import Image

HERE = pathlib.Path(__file__).parent


def picture(width, height):
    """Waves and an edge, in colours that no rounding takes out of the range."""
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [numpy.sin(x / (3 + channel) + y / (5 - channel)) for channel in range(3)]
    pixels = 128 + 40 * numpy.stack(waves, axis=-1) + 20 * (x > y)[..., None]
    return Image.fromarray(pixels.astype(numpy.uint8))


def jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **{"quality": 60, **options})
    return file.getvalue()


def kinds():
    image = picture(40, 28)
    rotated = Image.Exif()
    rotated[0x112] = 6
    return {
        "420": jpeg(image, subsampling=2),
        "422": jpeg(image, subsampling=1),
        "444": jpeg(image, subsampling=0),
        "rgb": jpeg(image, keep_rgb=True),
        "grey": jpeg(image.convert("L")),
        "cmyk": jpeg(image.convert("CMYK")),
        "progressive": jpeg(image, progressive=True),
        "progressive-grey": jpeg(image.convert("L"), progressive=True),
        "optimized": jpeg(image, optimize=True),
        "quality-1": jpeg(image, quality=1),
        "quality-100": jpeg(image, quality=100),
        "restarts": jpeg(image, restart_marker_blocks=1),
        "exif": jpeg(image, exif=rotated),
        "tall": jpeg(picture(19, 90)),
        "wide": jpeg(picture(90, 19)),
        "same-size": jpeg(picture(16, 16)),
        "small": jpeg(picture(5, 4)),
        "pixel": jpeg(picture(1, 1)),
    }


def resized(data, size, draft=False):
    """As `transforms.Resize(size)` and `transforms.CenterCrop(size)` of torchvision."""
    image = Image.open(io.BytesIO(data))
    if draft:
        image.draft("RGB", (size, size))
    image = image.convert("RGB")
    width, height = (size * side // min(image.size) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size)).tobytes()


def main():
    images = kinds()
    with tarfile.open(HERE / "kinds.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for number, (name, data) in enumerate(images.items()):
            for ending, data in (("jpg", data), ("cls", str(number).encode())):
                member = tarfile.TarInfo(f"{name}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    (HERE / "kinds.rgb").write_bytes(b"".join(resized(data, 16) for data in images.values()))
    drafts = (resized(data, size, draft=True) for size in (14, 7, 3) for data in images.values())
    (HERE / "drafts.rgb").write_bytes(b"".join(drafts))


if __name__ == "__main__":
    main()
