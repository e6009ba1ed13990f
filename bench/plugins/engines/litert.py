"""Names of the inputs and outputs of a TFLite file, as LiteRT's interpreter gives them."""

from typing import Any

from bench.api.errors import ArtifactError


def ports(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The interpreter's details of the inputs and of the outputs, each by name.

    The names are those of the file's signature; a file without a signature has the names of its tensors.

    Raises:
        ArtifactError: the file has several signatures.
    """
    signatures = interpreter.get_signature_list()
    if len(signatures) > 1:
        raise ArtifactError(f"the file has the signatures {', '.join(signatures)}; only one can be measured")
    if signatures:
        runner = interpreter.get_signature_runner()  # it knows the names; the file's order may be another
        return runner.get_input_details(), runner.get_output_details()
    details = interpreter.get_input_details(), interpreter.get_output_details()
    inputs, outputs = ({str(detail["name"]): detail for detail in side} for side in details)
    return inputs, outputs
