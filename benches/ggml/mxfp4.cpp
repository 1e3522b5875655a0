// Speed of ggml's MXFP4 layers with repacked weights: N = 20480, K = 5120, weights rotated over 19 matrices (1 GB).
//
// Usage: mxfp4 THREADS. Prints one line, gigabytes of weights a second for 1, 2, 4, 8 and 16 rows; medians of three.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static ggml_backend_buffer_type_t repacked(ggml_backend_dev_t device) {
    auto registry = ggml_backend_dev_backend_reg(device);
    auto list = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
        registry, "ggml_backend_dev_get_extra_bufts");
    for (auto type = list ? list(device) : nullptr; type && *type; type++) {
        if (!strcmp(ggml_backend_buft_name(*type), "CPU_REPACK")) return *type;
    }
    fprintf(stderr, "this ggml has no buffers of repacked weights\n");
    exit(1);
}

int main(int count, char **args) {
    if (count != 2 || atoi(args[1]) < 1) {
        fprintf(stderr, "usage: %s THREADS\n", args[0]);
        return 2;
    }
    const int64_t N = 20480, K = 5120;
    const int matrices = 19;
    auto device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    auto backend = ggml_backend_dev_init(device, nullptr);
    ggml_backend_cpu_set_n_threads(backend, atoi(args[1]));

    auto weights = ggml_init({ggml_tensor_overhead() * matrices, nullptr, true});
    std::vector<ggml_tensor *> list;
    for (int i = 0; i < matrices; i++) list.push_back(ggml_new_tensor_2d(weights, GGML_TYPE_MXFP4, K, N));
    ggml_backend_alloc_ctx_tensors_from_buft(weights, repacked(device));
    const size_t bytes = ggml_nbytes(list[0]);
    std::vector<unsigned char> codes(bytes);
    // Blocks of 17 bytes: an exponent, then 32 codes.
    for (size_t i = 0; i < bytes; i++) codes[i] = i % 17 == 0 ? 120 + i * 7 % 8 : (i * 2654435761u) >> 13;
    for (auto tensor : list) ggml_backend_tensor_set(tensor, codes.data(), 0, bytes);

    for (int rows : {1, 2, 4, 8, 16}) {
        auto context = ggml_init({ggml_tensor_overhead() * (matrices + 8) + ggml_graph_overhead(), nullptr, true});
        auto x = ggml_new_tensor_2d(context, GGML_TYPE_F32, K, rows);
        auto graph = ggml_new_graph(context);
        for (auto tensor : list) ggml_build_forward_expand(graph, ggml_mul_mat(context, tensor, x));
        auto buffer = ggml_backend_alloc_ctx_tensors(context, backend);
        std::vector<float> inputs(K * rows);
        for (size_t i = 0; i < inputs.size(); i++) inputs[i] = (i % 97) / 97.0f - 0.5f;
        ggml_backend_tensor_set(x, inputs.data(), 0, inputs.size() * sizeof(float));
        ggml_backend_graph_compute(backend, graph);
        std::vector<double> times;
        for (int i = 0; i < 3; i++) {
            const double began = seconds();
            ggml_backend_graph_compute(backend, graph);
            times.push_back(seconds() - began);
        }
        std::sort(times.begin(), times.end());
        printf("%.2f ", bytes * (double)matrices / times[1] / 1e9);
        ggml_backend_buffer_free(buffer);
        ggml_free(context);
    }
    printf("\n");
}
