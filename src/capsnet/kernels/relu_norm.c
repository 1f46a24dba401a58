/* ReLU and BatchNorm in one, over maps whose channels lie innermost: `rows` places of `channels` numbers.

   VALUE is float, or bfloat16 where BFLOAT16 is defined; arithmetic on maps is in float, sums over many rows and what is a
   channel's alone in double. `sums` is room for one part a thread, [threads][2][channels]: first of what is summed, then of its
   product with the other; the first part ends as the sum of all. */

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
#define WIDE 32 /* channels summed side by side */

/* A NaN stays one. */
static inline float relu(float x) { return x < 0 ? 0 : x; }

/* Sums over `rows` rows of `width` neighbouring channels of relu(x) - pivot and of its square; with a gradient, of that and of its
   product with relu(x) - pivot. Inline, so that it is compiled for each width, its sums in registers, and for each case without a
   question. */
static inline __attribute__((always_inline)) void add_rows(const VALUE *restrict x, const VALUE *restrict gradient,
                                                           const float *restrict pivot, float *restrict values,
                                                           float *restrict products, long rows, long channels, long width) {
    for (long c = 0; c < width; c++) values[c] = products[c] = 0;
    for (long row = 0; row < rows; row++)
        for (long c = 0; c < width; c++) {
            const float centred = relu(read_value(x[row * channels + c])) - pivot[c];
            const float value = gradient ? read_value(gradient[row * channels + c]) : centred;
            values[c] += value;
            products[c] += value * centred;
        }
}

/* Without a gradient: each channel's sum of relu(x) and of its square. Both are taken of differences from the mean of the rows
   before, so that nothing cancels where the mean is a thousand deviations; moving them back is done in double. With a gradient: its
   sum, and that of its product with relu(x) - middle. With `rectified`, which may be x itself, relu(x) is written there on the
   way. */
static inline __attribute__((always_inline)) void add_up(const VALUE *x, const VALUE *restrict gradient,
                                                         const float *restrict middle, VALUE *rectified, double *restrict sums,
                                                         long rows, long channels, long threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long t = 0; t < threads; t++) {
        double *part = sums + t * 2 * channels;
        for (long c = 0; c < 2 * channels; c++) part[c] = 0;
        const long begin = rows * t / threads, last = rows * (t + 1) / threads;
        float pivot[channels];
        for (long c = 0; c < channels; c++) pivot[c] = gradient ? middle[c] : 0;
        const long few = last - begin < ROWS_IN_FLOAT ? last - begin : ROWS_IN_FLOAT;
        if (!gradient)
            for (long row = begin; row < begin + few; row++)
                for (long c = 0; c < channels; c++) pivot[c] += relu(read_value(x[row * channels + c])) / few;
        for (long row = begin; row < last; row += ROWS_IN_FLOAT) {
            const long some = row + ROWS_IN_FLOAT < last ? ROWS_IN_FLOAT : last - row;
            if (rectified)
                for (long at = row * channels; at < (row + some) * channels; at++)
                    rectified[at] = rounded(relu(read_value(x[at])));
            for (long c = 0; c < channels; c += WIDE) {
                const long at = row * channels + c, width = c + WIDE <= channels ? WIDE : channels - c;
                float values[WIDE], products[WIDE];
                if (width == WIDE)
                    add_rows(x + at, gradient ? gradient + at : 0, pivot + c, values, products, some, channels, WIDE);
                else
                    add_rows(x + at, gradient ? gradient + at : 0, pivot + c, values, products, some, channels, width);
                for (long k = 0; k < width; k++) {
                    const double value = values[k], from = gradient ? 0 : pivot[c + k];
                    part[c + k] += value + some * from;
                    part[channels + c + k] += products[k] + from * (2 * value + some * from);
                    if (!gradient) pivot[c + k] += values[k] / some;
                }
            }
        }
    }
    for (long c = 2 * channels; c < threads * 2 * channels; c++) sums[c % (2 * channels)] += sums[c];
}

/* The mean and 1/sqrt(variance + epsilon) of relu(x), which the running ones move towards. */
static inline __attribute__((always_inline)) void take_statistics(const VALUE *x, VALUE *rectified, double *restrict mean,
                                                                  double *restrict inverse, float *restrict running_mean,
                                                                  float *restrict running_variance, double epsilon,
                                                                  double momentum, double *restrict sums, long rows,
                                                                  long channels, long threads) {
    add_up(x, 0, 0, rectified, sums, rows, channels, threads);
    for (long c = 0; c < channels; c++) {
        mean[c] = sums[c] / rows;
        const double difference = sums[channels + c] / rows - mean[c] * mean[c];
        const double variance = difference < 0 ? 0 : difference;
        inverse[c] = 1 / __builtin_sqrt(variance + epsilon);
        running_mean[c] += momentum * (mean[c] - running_mean[c]);
        running_variance[c] += momentum * (variance * rows / (rows - 1) - running_variance[c]);
    }
}

/* y = weight (relu(x) - mean) inverse + bias. */
void forward(const VALUE *restrict x, const float *restrict weight, const float *restrict bias, VALUE *restrict y,
             double *restrict mean, double *restrict inverse, float *restrict running_mean, float *restrict running_variance,
             double epsilon, double momentum, double *restrict sums, long rows, long channels, long threads) {
    float scale[channels], shift[channels];
    take_statistics(x, 0, mean, inverse, running_mean, running_variance, epsilon, momentum, sums, rows, channels, threads);
    for (long c = 0; c < channels; c++) {
        scale[c] = weight[c] * inverse[c];
        shift[c] = bias[c] - mean[c] * weight[c] * inverse[c];
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long row = 0; row < rows; row++)
        for (long c = 0; c < channels; c++) {
            const long at = row * channels + c;
            y[at] = rounded(relu(read_value(x[at])) * scale[c] + shift[c]);
        }
}

/* The gradients of x, weight and bias. With g = weight inverse, x's is g (gradient - its mean - (relu(x) - mean) inverse times
   the mean of gradient (relu(x) - mean) inverse) where x is above zero. */
void backward(const VALUE *restrict x, const VALUE *restrict gradient, const float *restrict weight,
              const double *restrict mean, const double *restrict inverse, VALUE *restrict of_x, float *restrict of_weight,
              float *restrict of_bias, double *restrict sums, long rows, long channels, long threads) {
    float by_gradient[channels], by_value[channels], constant[channels], middle[channels];
    for (long c = 0; c < channels; c++) middle[c] = mean[c];
    if (gradient) /* always; said here, the inner loop need not ask */
        add_up(x, gradient, middle, 0, sums, rows, channels, threads);
    for (long c = 0; c < channels; c++) {
        const double off = mean[c] - middle[c], scale = weight[c] * inverse[c];
        const double summed = inverse[c] * (sums[channels + c] - off * sums[c]);
        const double slope = -scale * inverse[c] * summed / rows;
        by_gradient[c] = scale;
        by_value[c] = slope;
        constant[c] = -scale * sums[c] / rows - off * slope;
        of_weight[c] = summed;
        of_bias[c] = sums[c];
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long row = 0; row < rows; row++)
        for (long c = 0; c < channels; c++) {
            const long at = row * channels + c;
            const float value = read_value(x[at]), centred = value - middle[c];
            const float whole = read_value(gradient[at]) * by_gradient[c] + centred * by_value[c] + constant[c];
            of_x[at] = rounded(value <= 0 ? 0 : whole);
        }
}

/* For a convolution that does the rest itself: relu(x) in place of x, and its mean and 1/sqrt(variance + epsilon). */
void rectify(VALUE *x, double *restrict mean, double *restrict inverse, float *restrict running_mean,
             float *restrict running_variance, double epsilon, double momentum, double *restrict sums, long rows,
             long channels, long threads) {
    take_statistics(x, x, mean, inverse, running_mean, running_variance, epsilon, momentum, sums, rows, channels, threads);
}

/* The gradient of what `rectify` was given, in place of that of relu(x): what it adds to itself through mean and inverse is one
   factor and one summand a channel. */
void unrectify(const VALUE *restrict rectified, VALUE *restrict gradient, const float *restrict factor,
               const float *restrict summand, long rows, long channels, long threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long row = 0; row < rows; row++)
        for (long c = 0; c < channels; c++) {
            const long at = row * channels + c;
            const float value = read_value(rectified[at]);
            const float whole = read_value(gradient[at]) + value * factor[c] + summand[c];
            gradient[at] = rounded(value <= 0 ? 0 : whole);
        }
}
