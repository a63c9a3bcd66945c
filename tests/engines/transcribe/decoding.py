"""A file of any format as samples."""

from pathlib import Path

import av
import numpy as np

from engines.audio.samples import RATE, Samples


def decoded(file: Path) -> Samples:
    resampler = av.AudioResampler("s16", "mono", RATE)
    with av.open(str(file)) as container:
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])
