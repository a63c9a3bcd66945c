"""The page of one transcription: player, waveform, and a transcript whose words seek the player.

read          the job, its peaks, and why it waits
transcript    the transcript from the artifact store, as HTML
waveform      the peaks as a picture
render        the part that changes while the job runs
views         the page
actions       cancel, delete

static/dalston/transcript.js plays; it fetches waveform and transcript when the live part says that there are new ones.
"""
