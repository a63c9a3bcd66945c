"""The page of transcriptions: drop recordings, and see them become transcripts.

read          a page of transcriptions, newest first
render        the page
views         the page; recordings are sent by static/dalston/upload.js to the API
"""
