"""The search for a deployment: what is built, and how, is proposed, measured, judged and confirmed."""
