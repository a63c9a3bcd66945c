"""The transcribe engine: speech to text, by the best model that this machine can run.

engine        chooses the model, reports the progress
loading       which models this process has: fetched, or bundled
recogniser    what the models have in common
moonshine     Moonshine tiny on the CPU: ONNX, a decode loop, its vocabulary
sphinx        pocketsphinx, the last resort: its wheel has its model
whisper       faster-whisper on a GPU
cues          sentences of a window, with estimated times
results       segments with the times of the whole file
batches       batches that shrink when the GPU's memory is full
"""
