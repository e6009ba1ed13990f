"""A page in Chromium as a program beside the worker: the browser, the server of the page, and the page itself."""
