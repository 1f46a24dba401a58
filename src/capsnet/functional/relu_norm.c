/* ReLU and BatchNorm in one, over maps whose channels lie innermost: `rows` places of `channels` numbers.

   VALUE is float, or bfloat16 where BFLOAT16 is defined; all arithmetic is in float, sums over many rows in double. Sums come
   in one part a thread, [threads][2][channels]: first of what is summed, then of its product with the other. */

#ifdef BFLOAT16
typedef unsigned short VALUE;

static inline float read_value(VALUE value) {
    const union { unsigned bits; float number; } wide = {(unsigned)value << 16};
    return wide.number;
}

static inline VALUE rounded(float number) {
    const union { float number; unsigned bits; } wide = {number};
    const unsigned nearest = wide.bits + 0x7fff + (wide.bits >> 16 & 1);
    return number == number ? nearest >> 16 : 0x7fc0;
}
#else
typedef float VALUE;
static inline float read_value(VALUE value) { return value; }
static inline VALUE rounded(float number) { return number; }
#endif

#define ROWS_IN_FLOAT 64

/* A NaN stays one. */
static inline float relu(float x) { return x < 0 ? 0 : x; }

/* Sums of relu(x) and of its square; with a gradient, of that and of its product with relu(x). Inline, so that the inner loop
   is compiled for each without a question in it. */
static inline __attribute__((always_inline)) void add_up(const VALUE *restrict x, const VALUE *restrict gradient,
                                                         double *restrict sums, long rows, long channels, long threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long t = 0; t < threads; t++) {
        float values[channels], products[channels];
        double *part = sums + t * 2 * channels;
        const long last = rows * (t + 1) / threads;
        for (long row = rows * t / threads; row < last;) {
            const long stop = row + ROWS_IN_FLOAT < last ? row + ROWS_IN_FLOAT : last;
            for (long c = 0; c < channels; c++) values[c] = products[c] = 0;
            for (; row < stop; row++)
                for (long c = 0; c < channels; c++) {
                    const float positive = relu(read_value(x[row * channels + c]));
                    const float value = gradient ? read_value(gradient[row * channels + c]) : positive;
                    values[c] += value;
                    products[c] += value * positive;
                }
            for (long c = 0; c < channels; c++) {
                part[c] += values[c];
                part[channels + c] += products[c];
            }
        }
    }
}

void sum_forward(const VALUE *x, double *sums, long rows, long channels, long threads) {
    add_up(x, 0, sums, rows, channels, threads);
}

void sum_backward(const VALUE *x, const VALUE *gradient, double *sums, long rows, long channels, long threads) {
    if (gradient) add_up(x, gradient, sums, rows, channels, threads);
}

/* y = relu(x) scale + shift */
void normalise(const VALUE *restrict x, const float *restrict scale, const float *restrict shift, VALUE *restrict y, long rows,
               long channels, long threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long row = 0; row < rows; row++)
        for (long c = 0; c < channels; c++) {
            const long at = row * channels + c;
            y[at] = rounded(relu(read_value(x[at])) * scale[c] + shift[c]);
        }
}

/* x's gradient: of_gradient gradient + of_value x + constant where x is above zero. */
void backward(const VALUE *restrict x, const VALUE *restrict gradient, const float *restrict of_gradient,
              const float *restrict of_value, const float *restrict constant, VALUE *restrict out, long rows, long channels,
              long threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long row = 0; row < rows; row++)
        for (long c = 0; c < channels; c++) {
            const long at = row * channels + c;
            const float value = read_value(x[at]);
            const float whole = read_value(gradient[at]) * of_gradient[c] + value * of_value[c] + constant[c];
            out[at] = rounded(value <= 0 ? 0 : whole);
        }
}
