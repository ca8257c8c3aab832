"""ONNX Runtime with its CUDA provider, where the package has one: a chain of matrix products with large weights."""
import sys

from row_report import NotInstalled, need, run_rows, version_of


def session():
    runtime, onnx, numpy = need("onnxruntime"), need("onnx"), need("numpy")
    if "CUDAExecutionProvider" not in runtime.get_available_providers():
        raise NotInstalled(f"ONNX Runtime for CUDA: this package has only {', '.join(runtime.get_available_providers())}")
    from onnx import TensorProto, helper, numpy_helper
    width, layers = 4096, 24
    random = numpy.random.default_rng(1)
    weights = [numpy_helper.from_array((random.standard_normal((width, width), dtype=numpy.float32) / 64), f"w{layer}")
               for layer in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"x{layer + 1}"]) for layer in range(layers)]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [64, width])],
                              [helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, [64, width])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    ready = runtime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    if "CUDAExecutionProvider" not in ready.get_providers():
        raise NotInstalled("ONNX Runtime for CUDA: its provider did not load")
    x = random.standard_normal((64, width), dtype=numpy.float32)
    values = [float(ready.run(None, {"x0": x})[0].astype(numpy.float64).sum()) for _ in range(4)]
    return {"values": values, "peak_bytes": layers * width * width * 4, "path": "its own arena",
            "version": version_of("onnxruntime-gpu", "onnxruntime")}


if __name__ == "__main__":
    sys.exit(run_rows([("session", session)]))
