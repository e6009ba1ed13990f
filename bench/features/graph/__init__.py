"""`bench graph`: files of models compared, checked, cut, folded, and drawn."""
