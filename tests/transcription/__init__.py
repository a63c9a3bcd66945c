"""The pure parts of transcription: formats, and what a client asks."""
