"""Models of the Hugging Face Hub, named as `hf:org/name@revision:path`: what is named, chosen, fetched and kept.

`reference` reads the name, `remote` sends the requests, `listing` reads which files a repository has, `choosing` says
which of them are the model, `downloads` fetches one file whole or not at all, `places` says where it lies, and `fetch`
is all of this for a command. What the hub answers is not trusted; nothing that it sends runs here.
"""
