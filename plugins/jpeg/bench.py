"""Images per second: this decoder, Pillow, torchvision, PyTorch's DataLoader with each of them, and SPDL.

    pip install pillow numpy          # and torch, torchvision, spdl (which needs FFmpeg's libraries), to compare with them
    python bench.py                   # or: python bench.py FOLDER, with tar archives of your own

All do the same work: they read an archive of JPEGs and labels, decode each image, resize its
shorter side to 224 pixels, and cut out its centre. `PIPEMILL` names the host: build it with `make
build`. They run in alternation, five times; the table has medians, and the lowest and highest rate.

The first part has one core. Its rates are images per second of CPU time, the start of the host
included. The second part has two workers, and batches of 64 images that a training loop could take:
its rates are measured by the wall clock.
"""

import argparse
import functools
import io
import os
import pathlib
import resource
import statistics
import sys
import tarfile
import tempfile
import time

import numpy
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python/src"))

import pipemill  # noqa: E402

PLUGIN = str(HERE / "jpeg.wasm")
SIZE, BATCH, WORKERS, ROUNDS = 224, 64, 2, 5


def photo(random, width, height):
    """Noise whose spectrum is that of photographs, and some edges."""
    x, y = numpy.fft.fftfreq(width)[None, :], numpy.fft.fftfreq(height)[:, None]
    falling = (x * x + y * y) ** 0.625
    falling[0, 0] = numpy.inf
    noise = random.standard_normal((3, height, width)) + 1j * random.standard_normal((3, height, width))
    waves = numpy.fft.ifft2(noise / falling).real
    light, first, second = waves / waves.std(axis=(1, 2), keepdims=True)
    pixels = 120 + 50 * light[..., None] + 20 * numpy.stack([first, -first / 2 - second / 3, second], axis=-1)
    for _ in range(6):
        top, left = random.integers(0, height), random.integers(0, width)
        part = pixels[top : top + random.integers(20, 150), left : left + random.integers(20, 150)]
        part[...] = part / 2 + random.integers(0, 128, 3)
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))


def write_archives(folder, count, width, height, quality):
    random = numpy.random.default_rng(1)
    for shard in range(4):
        with tarfile.open(folder / f"{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for number in range(count // 4):
                file = io.BytesIO()
                photo(random, width, height).save(file, "JPEG", quality=quality)
                for ending, data in (("jpg", file.getvalue()), ("cls", str(number % 1000).encode())):
                    member = tarfile.TarInfo(f"{shard}-{number:05}.{ending}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))


def samples(path):
    """JPEG and label of each sample of an archive."""
    image = b""
    with tarfile.open(path) as archive:
        for member in archive:
            data = archive.extractfile(member).read()
            if member.name.endswith("cls"):
                yield image, int(data)
            image = data


def resized(image):
    width, height = (SIZE * side // min(image.size) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
    return numpy.asarray(image.crop((left, top, left + SIZE, top + SIZE)))


def with_pillow(jpeg, draft=False):
    image = Image.open(io.BytesIO(jpeg))
    if draft:
        image.draft("RGB", (SIZE, SIZE))
    return resized(image.convert("RGB"))


def with_torchvision(jpeg):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2.functional import center_crop, resize

    image = decode_jpeg(torch.frombuffer(bytearray(jpeg), dtype=torch.uint8), ImageReadMode.RGB)
    image = center_crop(resize(image, [SIZE], antialias=True), [SIZE, SIZE])
    return numpy.ascontiguousarray(image.permute(1, 2, 0).numpy())


# Each of these reads all archives once, and returns the number of images.


def pillow(paths, draft=False):
    return sum(with_pillow(image, draft).shape[2] // 3 for path in paths for image, _ in samples(path))


def torchvision(paths):
    import torch

    # The workers of a DataLoader have one thread, too.
    torch.set_num_threads(1)
    return sum(with_torchvision(image).shape[2] // 3 for path in paths for image, _ in samples(path))


def decoder(paths, workers=1, draft=False):
    with pipemill.open(paths, PLUGIN, options={"draft": draft}, batch=BATCH, workers=workers) as stream:
        return sum(batch["image"].shape[0] for batch in stream)


@functools.cache
def try_once(decode, path):
    """Says what is missing for this function, and imports it before there are workers."""
    decode(next(samples(path))[0])


def data_loader_with(decode):
    def run(paths):
        import torch.utils.data

        try_once(decode, paths[0])

        class Archives(torch.utils.data.IterableDataset):
            def __iter__(self):
                worker = torch.utils.data.get_worker_info()
                for path in paths[worker.id :: worker.num_workers]:
                    for image, label in samples(path):
                        yield torch.from_numpy(decode(image).copy()), label

        loader = torch.utils.data.DataLoader(Archives(), batch_size=BATCH, num_workers=WORKERS)
        return sum(len(images) for images, _ in loader)

    return run


def spdl_with(decode):
    def run(paths):
        from spdl.pipeline import PipelineBuilder

        try_once(decode, paths[0])

        source = (sample for path in paths for sample in samples(path))
        pipeline = (
            PipelineBuilder()
            .add_source(source)
            .pipe(lambda sample: (decode(sample[0]), sample[1]), concurrency=WORKERS, output_order="input")
            .aggregate(BATCH)
            .pipe(lambda batch: numpy.stack([image for image, _ in batch]))
            .add_sink(2)
            .build(num_threads=WORKERS)
        )
        with pipeline.auto_stop():
            return sum(len(images) for images in pipeline.get_iterator())

    return run


def with_ffmpeg(jpeg):
    import spdl.io

    cut = f"scale={SIZE}:{SIZE}:force_original_aspect_ratio=increase:flags=bilinear,crop={SIZE}:{SIZE},format=rgb24"
    return spdl.io.to_numpy(spdl.io.load_image(jpeg, filter_desc=cut)).copy()


def cpu():
    """CPU seconds of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def compare(title, contenders, paths, clock):
    rates = {name: [] for name in contenders}
    for round_ in range(ROUNDS + 1):
        for name, run in list(contenders.items()):
            before = clock()
            try:
                count = run(paths)
            except (ImportError, RuntimeError) as error:
                print(f"{name} is left out: {str(error)[:100]}")
                del contenders[name], rates[name]
                continue
            # The first round warms up.
            if round_ > 0:
                rates[name].append(count / (clock() - before))
    print(f"\n{title}")
    base = statistics.median(next(iter(rates.values())))
    for name, all_ in rates.items():
        median = statistics.median(all_)
        print(f"  {name:27} {median:6.0f}  ({min(all_):.0f} to {max(all_):.0f})  {median / base:.2f}")


def check(paths):
    """The images equal Pillow's, except for rounding and for colours outside of the range."""
    jpegs = (image for path in paths for image, _ in samples(path))
    worst, total, count = 0, 0.0, 0
    with pipemill.open(paths, PLUGIN, batch=BATCH) as stream:
        for batch in stream:
            for image, jpeg in zip(batch["image"], jpegs):
                difference = numpy.abs(with_pillow(jpeg).astype(int) - image)
                worst, total, count = max(worst, difference.max()), total + difference.mean(), count + 1
    print(f"{count} images; difference from Pillow: {total / count:.2f} of 255 on average, {worst} at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="tar archives; without it, some are made")
    parser.add_argument("--images", type=int, default=1000, help="how many are made (1000)")
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--height", type=int, default=375)
    parser.add_argument("--quality", type=int, default=90)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        if arguments.folder is None:
            write_archives(folder, arguments.images, arguments.width, arguments.height, arguments.quality)
        paths = sorted(map(str, folder.glob("*.tar")))
        sizes = [len(image) for path in paths for image, _ in samples(path)]
        print(f"{len(sizes)} JPEGs of {sum(sizes) / len(sizes) / 1024:.0f} KiB on average, in {len(paths)} archives")
        check(paths)
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(cores)})
        contenders = {
            "Pillow": pillow,
            "Pillow with draft": lambda paths: pillow(paths, draft=True),
            "torchvision": torchvision,
            "this decoder": decoder,
            "this decoder with draft": lambda paths: decoder(paths, draft=True),
        }
        compare("one core, images per second of CPU time", contenders, paths, cpu)
        os.sched_setaffinity(0, cores)
        contenders = {
            "DataLoader with Pillow": data_loader_with(with_pillow),
            "DataLoader with torchvision": data_loader_with(with_torchvision),
            "SPDL with Pillow": spdl_with(with_pillow),
            "SPDL with FFmpeg": spdl_with(with_ffmpeg),
            "this decoder": lambda paths: decoder(paths, WORKERS),
        }
        compare(f"{WORKERS} workers, images per second", contenders, paths, time.perf_counter)


if __name__ == "__main__":
    main()
