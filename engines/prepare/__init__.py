"""The prepare engine: a file of any format as 16 kHz mono chunks, and the stages that transcribe them.

engine       gets the file, decodes it, stores the chunks, asks for the stages
download     audio_url: each hop of a redirect is checked, the connection goes to the checked address
source       opens a file and refuses what can't be transcribed
decoding     samples of each channel on disk, with their levels
levels       loudness along the time: cuts in silence, peaks of the waveform; pure
planning     chunks, stages, timeouts; pure
"""
