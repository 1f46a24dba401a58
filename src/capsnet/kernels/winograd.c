/* 3x3 convolutions without padding by Winograd's minimal filtering (Lavin, Gray 2016), forward and backward, over maps whose
   channels lie innermost and are a multiple of 2 LANES.

   A tile of OUT x OUT outputs is seen through a tile of IN x IN inputs, which overlaps its neighbours. With d such a tile, g a
   kernel and Y a tile of outputs, products of matrices all over:
       V = B' d B, U = G g G', M = sum over channels of U V, element by element, Y = A' M A.
   So each of the elements has a product of matrices of its own, tiles x channels x outputs. Its gradients, with
   E = A (gradient of Y) A':
       of U = sum over tiles of V E, of d = B (sum over outputs of U E) B'.

   STRIDE 1 is F(4x4, 3x3): 36 multiplications for 16 outputs, which take 144 the direct way. With STRIDE 2 the inputs at even
   places meet two of the kernel's three columns, by F(3, 2), and those at odd places the third: 49 for 9 outputs in place of 81.
   There G has three equal rows, so 25 elements of U do for 49 of V.

   Tiles are taken in blocks of whole rows of tiles, small enough for their V and E to stay in a core's cache.

   VALUE, the numbers of maps, is float, or bfloat16 where BFLOAT16 is defined; all else is in float. */

#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#define ROWS 6
#define VECTORS 4
#else
#define LANES 8
#define ROWS 4
#define VECTORS 2
#endif

#if STRIDE == 1
#define IN 6
#define OUT 4
#define KINDS 6 /* different rows of G */
#else
#define IN 7
#define OUT 3
#define KINDS 5
#endif
#define ELEMENTS (IN * IN)
#define BLOCK 32 /* tiles */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    long height, width, channels; /* of the input */
    long out_height, out_width, outputs;
    long down, across; /* rows of tiles, and tiles in one */
} Shape;

static Shape shape_of(long height, long width, long channels, long outputs) {
    const long out_height = (height - 3) / STRIDE + 1, out_width = (width - 3) / STRIDE + 1;
    const long down = (out_height + OUT - 1) / OUT, across = (out_width + OUT - 1) / OUT;
    return (Shape){height, width, channels, out_height, out_width, outputs, down, across};
}

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec value) { *(vec *)to = value; }

#ifdef BFLOAT16
typedef unsigned short VALUE;
typedef VALUE halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef unsigned words __attribute__((vector_size(4 * LANES)));

INLINE vec load_values(const VALUE *from) { return (vec)(__builtin_convertvector(*(const halves *)from, words) << 16); }

INLINE void store_values(VALUE *to, vec value) {
    const words bits = (words)value, number = (words)(value == value);
    const words nearest = bits + 0x7fff + (bits >> 16 & 1);
    *(halves *)to = __builtin_convertvector(((nearest & number) | (0x7fc00000 & ~number)) >> 16, halves);
}
#else
typedef float VALUE;
#define load_values load
#define store_values store
#endif

#if STRIDE == 1

/* r = B' d */
INLINE void times_b_transposed(const vec *d, vec *r) {
    const vec even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1], outer = d[4] - d[2], inner = 2 * (d[3] - d[1]);
    r[0] = 4 * d[0] - 5 * d[2] + d[4];
    r[1] = even + odd;
    r[2] = even - odd;
    r[3] = outer + inner;
    r[4] = outer - inner;
    r[5] = 4 * d[1] - 5 * d[3] + d[5];
}

/* r = B m */
INLINE void times_b(const vec *m, vec *r) {
    const vec sum = m[1] + m[2], difference = m[2] - m[1], far_sum = m[3] + m[4], far_difference = 2 * (m[4] - m[3]);
    r[0] = 4 * m[0];
    r[1] = 4 * (difference + m[5]) + far_difference;
    r[2] = -5 * m[0] - 4 * sum - far_sum;
    r[3] = -difference - far_difference - 5 * m[5];
    r[4] = m[0] + sum + far_sum;
    r[5] = m[5];
}

/* r = A' m */
INLINE void times_a_transposed(const vec *m, vec *r) {
    const vec sum = m[1] + m[2], difference = m[1] - m[2], far_sum = m[3] + m[4], far_difference = m[3] - m[4];
    r[0] = m[0] + sum + far_sum;
    r[1] = difference + 2 * far_difference;
    r[2] = sum + 4 * far_sum;
    r[3] = difference + 8 * far_difference + m[5];
}

/* r = A y */
INLINE void times_a(const vec *y, vec *r) {
    const vec even = y[0] + y[2], odd = y[1] + y[3], far_even = y[0] + 4 * y[2], far_odd = 2 * y[1] + 8 * y[3];
    r[0] = y[0];
    r[1] = even + odd;
    r[2] = even - odd;
    r[3] = far_even + far_odd;
    r[4] = far_even - far_odd;
    r[5] = y[3];
}

#else

/* r = B' d */
INLINE void times_b_transposed(const vec *d, vec *r) {
    r[0] = d[0] - d[4];
    r[1] = d[2] + d[4];
    r[2] = d[4] - d[2];
    r[3] = d[6] - d[2];
    r[4] = d[1];
    r[5] = d[3];
    r[6] = d[5];
}

/* r = B m */
INLINE void times_b(const vec *m, vec *r) {
    r[0] = m[0];
    r[1] = m[4];
    r[2] = m[1] - m[2] - m[3];
    r[3] = m[5];
    r[4] = m[1] + m[2] - m[0];
    r[5] = m[6];
    r[6] = m[3];
}

/* r = A' m */
INLINE void times_a_transposed(const vec *m, vec *r) {
    const vec sum = m[1] + m[2];
    r[0] = m[0] + sum + m[4];
    r[1] = m[1] - m[2] + m[5];
    r[2] = sum + m[3] + m[6];
}

/* r = A y */
INLINE void times_a(const vec *y, vec *r) {
    const vec even = y[0] + y[2];
    r[0] = r[4] = y[0];
    r[1] = even + y[1];
    r[2] = even - y[1];
    r[5] = y[1];
    r[3] = r[6] = y[2];
}

#endif

/* A square of `side` x `side` from maps `row` apart down and `step` across, of which `high` x `wide` exist; the rest is zero. */
INLINE void load_square(const VALUE *from, long row, long step, long side, long high, long wide, vec *square) {
    for (long i = 0; i < side; i++)
        for (long j = 0; j < side; j++)
            square[i * side + j] = i < high && j < wide ? load_values(from + i * row + j * step) : (vec){0};
}

typedef void transform(const vec *, vec *);

/* Both sides of a square: result = T square T', where one way is T times a column. */
INLINE void both_ways(transform *one_way, long from, long to, const vec *square, vec *result) {
    vec half[ELEMENTS], column[IN], turned[IN];
    for (long j = 0; j < from; j++) {
        for (long i = 0; i < from; i++) column[i] = square[i * from + j];
        one_way(column, turned);
        for (long i = 0; i < to; i++) half[i * from + j] = turned[i];
    }
    for (long i = 0; i < to; i++) one_way(half + i * from, result + i * to);
}

/* Elements of V and E that meet the same element of U lie one after the other: where (i, j) lies, which is also where those that meet
   (i, j) of U begin, and how many these are. */
#if STRIDE == 1
INLINE long slot(long i, long j) { return i * IN + j; }
#define slots(i, j) 1
#else
INLINE long slot(long i, long j) { return i < 4 ? 7 * i + j : j < 4 ? 28 + 3 * j + i - 4 : 40 + 3 * (i - 4) + j - 4; }
INLINE long slots(long i, long j) { return (i < 4 ? 1 : 3) * (j < 4 ? 1 : 3); }
#endif

INLINE long least(long a, long b) { return a < b ? a : b; }

/* What a tile is of: its image, and where its first output lies. */
typedef struct { long image, top, left; } Tile;
INLINE Tile tile_at(long row, long across, const Shape *s) { return (Tile){row / s->down, row % s->down * OUT, across * OUT}; }

/* V of the block's rows of tiles, [element][tile][channel], elements `apart`. */
static void transform_inputs(const VALUE *x, float *v, long first, long rows, long apart, const Shape *s) {
    const long step = s->channels, row = s->width * step;
    for (long r = 0, t = 0; r < rows; r++)
        for (long a = 0; a < s->across; a++, t++) {
            const Tile tile = tile_at(first + r, a, s);
            const long top = tile.top * STRIDE, left = tile.left * STRIDE;
            const VALUE *from = x + (tile.image * s->height + top) * row + left * step;
            const long high = s->height - top, wide = s->width - left;
            for (long c = 0; c < step; c += LANES) {
                vec square[ELEMENTS], result[ELEMENTS];
                if (high >= IN && wide >= IN)
                    load_square(from + c, row, step, IN, IN, IN, square);
                else
                    load_square(from + c, row, step, IN, high, wide, square);
                both_ways(times_b_transposed, IN, IN, square, result);
                for (long i = 0; i < IN; i++)
                    for (long j = 0; j < IN; j++) store(v + slot(i, j) * apart + t * step + c, result[i * IN + j]);
            }
        }
}

/* E of the block's rows of tiles, [element][tile][output], and the sum of the gradient over them. */
static void transform_gradients(const VALUE *gradient, float *e, float *sums, long first, long rows, long apart,
                                const Shape *s) {
    const long step = s->outputs, row = s->out_width * step;
    for (long r = 0, t = 0; r < rows; r++)
        for (long a = 0; a < s->across; a++, t++) {
            const Tile tile = tile_at(first + r, a, s);
            const VALUE *from = gradient + (tile.image * s->out_height + tile.top) * row + tile.left * step;
            const long high = s->out_height - tile.top, wide = s->out_width - tile.left;
            for (long o = 0; o < step; o += LANES) {
                vec square[OUT * OUT], result[ELEMENTS], sum = {0};
                if (high >= OUT && wide >= OUT)
                    load_square(from + o, row, step, OUT, OUT, OUT, square);
                else
                    load_square(from + o, row, step, OUT, high, wide, square);
                for (long i = 0; i < OUT * OUT; i++) sum += square[i];
                store(sums + o, load(sums + o) + sum);
                both_ways(times_a, OUT, IN, square, result);
                for (long i = 0; i < IN; i++)
                    for (long j = 0; j < IN; j++) store(e + slot(i, j) * apart + t * step + o, result[i * IN + j]);
            }
        }
}

/* The outputs of the block's rows of tiles. */
static void transform_outputs(const float *m, const float *bias, VALUE *y, long first, long rows, long apart, const Shape *s) {
    const long step = s->outputs, row = s->out_width * step;
    for (long r = 0, t = 0; r < rows; r++)
        for (long a = 0; a < s->across; a++, t++) {
            const Tile tile = tile_at(first + r, a, s);
            VALUE *to = y + (tile.image * s->out_height + tile.top) * row + tile.left * step;
            const long high = least(OUT, s->out_height - tile.top), wide = least(OUT, s->out_width - tile.left);
            for (long o = 0; o < step; o += LANES) {
                vec square[ELEMENTS], result[OUT * OUT];
                const vec summand = load(bias + o);
                for (long i = 0; i < IN; i++)
                    for (long j = 0; j < IN; j++) square[i * IN + j] = load(m + slot(i, j) * apart + t * step + o);
                both_ways(times_a_transposed, IN, OUT, square, result);
                for (long i = 0; i < high; i++)
                    for (long j = 0; j < wide; j++) store_values(to + i * row + j * step + o, result[i * OUT + j] + summand);
            }
        }
}

/* Adds the gradients of the block's input tiles, which overlap; an image's first row of tiles begins it with zeros. */
static void add_input_gradients(const float *m, VALUE *of_x, long first, long rows, long apart, const Shape *s) {
    const long step = s->channels, row = s->width * step;
    for (long r = 0, t = 0; r < rows; r++) {
        const Tile begun = tile_at(first + r, 0, s);
        if (begun.top == 0) memset(of_x + begun.image * s->height * row, 0, s->height * row * sizeof(VALUE));
        for (long a = 0; a < s->across; a++, t++) {
            const Tile tile = tile_at(first + r, a, s);
            const long top = tile.top * STRIDE, left = tile.left * STRIDE;
            VALUE *to = of_x + (tile.image * s->height + top) * row + left * step;
            const long high = least(IN, s->height - top), wide = least(IN, s->width - left);
            for (long c = 0; c < step; c += LANES) {
                vec square[ELEMENTS], result[ELEMENTS];
                for (long i = 0; i < IN; i++)
                    for (long j = 0; j < IN; j++) square[i * IN + j] = load(m + slot(i, j) * apart + t * step + c);
                both_ways(times_b, IN, IN, square, result);
                for (long i = 0; i < high; i++)
                    for (long j = 0; j < wide; j++) {
                        VALUE *at = to + i * row + j * step + c;
                        store_values(at, load_values(at) + result[i * IN + j]);
                    }
            }
        }
    }
}

/* c[rows][vectors * LANES columns] (+)= a b, where a's element (i, k) lies at i * down + k * right; sums stay in registers. */
INLINE void multiply_piece(const float *restrict a, long down, long right, const float *restrict b, long columns,
                           float *restrict c, long depth, long rows, long vectors, int adding) {
    vec sums[ROWS][VECTORS];
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < vectors; j++) sums[i][j] = adding ? load(c + i * columns + j * LANES) : (vec){0};
    for (long k = 0; k < depth; k++) {
        vec factors[VECTORS];
        for (long j = 0; j < vectors; j++) factors[j] = load(b + k * columns + j * LANES);
        for (long i = 0; i < rows; i++) {
            const float left = a[i * down + k * right];
            for (long j = 0; j < vectors; j++) sums[i][j] += left * factors[j];
        }
    }
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < vectors; j++) store(c + i * columns + j * LANES, sums[i][j]);
}

/* Compiled once for each of a few sizes: many would take the compiler seconds. */
#define PIECE(ROWS_, VECTORS_)                                                                                                \
    static __attribute__((noinline)) void multiply_##ROWS_##_##VECTORS_(const float *a, long down, long right, const float *b, \
                                                                        long columns, float *c, long depth, int adding) {     \
        multiply_piece(a, down, right, b, columns, c, depth, ROWS_, VECTORS_, adding);                                        \
    }
typedef void piece(const float *, long, long, const float *, long, float *, long, int);

#if ROWS == 6
PIECE(6, 4) PIECE(6, 2) PIECE(5, 4) PIECE(5, 2) PIECE(1, 4) PIECE(1, 2)
static piece *const pieces[3][2] = {{multiply_6_4, multiply_6_2}, {multiply_5_4, multiply_5_2}, {multiply_1_4, multiply_1_2}};
#else
PIECE(4, 2) PIECE(3, 2) PIECE(1, 2)
static piece *const pieces[3][2] = {{multiply_4_2, multiply_4_2}, {multiply_3_2, multiply_3_2}, {multiply_1_2, multiply_1_2}};
#endif

/* c[rows][columns] (+)= a b: as many rows at once as registers hold, one fewer for what does not come out even, single ones for
   what does not either way. */
static void multiply(const float *a, long down, long right, const float *b, long columns, float *c, long depth, long rows,
                     int adding) {
    const long some = (rows + ROWS - 1) / ROWS, fewer = some * ROWS - rows;
    for (long i = 0; i < rows;) {
        const int kind = fewer > some ? (i + ROWS <= rows ? 0 : 2) : i < fewer * (ROWS - 1) ? 1 : 0;
        for (long j = 0; j < columns;) {
            const int narrow = columns - j < VECTORS * LANES;
            pieces[kind][narrow](a + i * down, down, right, b + j, columns, c + i * columns + j, depth, adding);
            j += (narrow ? 2 : VECTORS) * LANES;
        }
        i += kind == 0 ? ROWS : kind == 1 ? ROWS - 1 : 1;
    }
}

static long rows_in_block(const Shape *s) { return s->across < BLOCK ? BLOCK / s->across : 1; }

/* Floats from one slot of a block of tiles to the next. Where slots need not touch, not a power of two: caches have few places
   for those. */
INLINE long slots_apart(long tiles, long channels) { return tiles * channels + (KINDS == IN ? LANES : 0); }

static long room_of(const Shape *s) {
    const long tiles = rows_in_block(s) * s->across;
    return ELEMENTS * (slots_apart(tiles, s->channels) + slots_apart(tiles, s->outputs));
}

/* Floats of room that a thread needs. */
long room(long height, long width, long channels, long outputs) {
    const Shape s = shape_of(height, width, channels, outputs);
    return room_of(&s);
}

/* Some rows of tiles, with room for their V and for their E or M. */
typedef struct {
    long rows, tiles, v_apart, e_apart;
    float *v, *e;
} Block;

static Block block_at(long row, long last, float *room, const Shape *s) {
    const long rows = least(rows_in_block(s), last - row), tiles = rows * s->across;
    const long v_apart = slots_apart(tiles, s->channels), e_apart = slots_apart(tiles, s->outputs);
    return (Block){rows, tiles, v_apart, e_apart, room, room + ELEMENTS * v_apart};
}

/* y = conv(x) + bias, with u = U, [element][channel][output]. */
void forward(const VALUE *x, const float *u, const float *bias, VALUE *y, float *rooms, long images, long height, long width,
             long channels, long outputs, long threads) {
    const Shape s = shape_of(height, width, channels, outputs);
    const long size = channels * outputs;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long thread = 0; thread < threads; thread++) {
        const long last = images * (thread + 1) / threads * s.down;
        for (long row = images * thread / threads * s.down; row < last; row += rows_in_block(&s)) {
            const Block b = block_at(row, last, rooms + thread * room_of(&s), &s);
            transform_inputs(x, b.v, row, b.rows, b.v_apart, &s);
            for (long i = 0; i < KINDS; i++)
                for (long j = 0; j < KINDS; j++)
                    multiply(b.v + slot(i, j) * b.v_apart, channels, 1, u + (i * KINDS + j) * size, outputs,
                             b.e + slot(i, j) * b.e_apart, channels, slots(i, j) * b.tiles, 0);
            transform_outputs(b.e, bias, y, row, b.rows, b.e_apart, &s);
        }
    }
}

/* The gradients of x, U and the bias, with u_turned = U as [element][output][channel]. `of_u` and `of_bias` have one part a
   thread; the first ends as the sum of all. */
void backward(const VALUE *x, const VALUE *gradient, const float *u_turned, VALUE *of_x, float *of_u, float *of_bias,
              float *rooms, long images, long height, long width, long channels, long outputs, long threads) {
    const Shape s = shape_of(height, width, channels, outputs);
    const long size = channels * outputs, all = KINDS * KINDS * size;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long thread = 0; thread < threads; thread++) {
        float *kernels = of_u + thread * all, *sums = of_bias + thread * outputs;
        memset(kernels, 0, all * sizeof(float));
        memset(sums, 0, outputs * sizeof(float));
        const long last = images * (thread + 1) / threads * s.down;
        for (long row = images * thread / threads * s.down; row < last; row += rows_in_block(&s)) {
            const Block b = block_at(row, last, rooms + thread * room_of(&s), &s);
            transform_inputs(x, b.v, row, b.rows, b.v_apart, &s);
            transform_gradients(gradient, b.e, sums, row, b.rows, b.e_apart, &s);
            for (long i = 0; i < KINDS; i++)
                for (long j = 0; j < KINDS; j++) {
                    float *inputs = b.v + slot(i, j) * b.v_apart, *gradients = b.e + slot(i, j) * b.e_apart;
                    const long kernel = (i * KINDS + j) * size, many = slots(i, j) * b.tiles;
                    multiply(inputs, 1, channels, gradients, outputs, kernels + kernel, many, channels, 1);
                    /* V has been used: what becomes the gradient of x takes its place. */
                    multiply(gradients, outputs, 1, u_turned + kernel, channels, inputs, outputs, many, 0);
                }
            add_input_gradients(b.v, of_x, row, b.rows, b.v_apart, &s);
        }
    }
    for (long thread = 1; thread < threads; thread++) {
        for (long n = 0; n < all; n++) of_u[n] += of_u[thread * all + n];
        for (long n = 0; n < outputs; n++) of_bias[n] += of_bias[thread * outputs + n];
    }
}
