/* Sums over matrix votes that are made in registers and never stored; `matrix_votes.py` says what for.

   A vote, less the centre of its parent, is v[r][c] = sum over k of pose[r][k] weight[k][c] - centre[r][c]. Inputs lie
   innermost, LANES at a time, and a block of them holds the 16 elements of its matrices one after the other:
   poses [n][blocks][16][LANES], weight [j][blocks][16][LANES], all that belongs to an input [n][j][blocks][LANES],
   all that belongs to a parent [n][j][16], where n counts the positions of all images and j the parents of each.

   REAL is float or double. */

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES (4 * sizeof(REAL))
#endif
#define LANES (BYTES / sizeof(REAL))

typedef REAL lanes __attribute__((vector_size(BYTES), aligned(sizeof(REAL))));
typedef REAL half __attribute__((vector_size(BYTES / 2)));
typedef REAL quarter __attribute__((vector_size(BYTES / 4)));

const long inputs_in_a_block = LANES;

static inline REAL sum(lanes x) {
    const union { lanes all; half halves[2]; } whole = {x};
    const union { half all; quarter quarters[2]; } folded = {whole.halves[0] + whole.halves[1]};
    const quarter rest = folded.quarters[0] + folded.quarters[1];
    REAL total = rest[0];
    for (int l = 1; l < (int)LANES / 4; l++) total += rest[l];
    return total;
}

static inline lanes vote(const lanes *pose_row, const lanes *weight_column, REAL centre) {
    lanes v = pose_row[0] * weight_column[0] - centre;
    v += pose_row[1] * weight_column[4];
    v += pose_row[2] * weight_column[8];
    return v + pose_row[3] * weight_column[12];
}

/* mass, first, second [n][j]: the sums over the inputs of share, share v, share v^2. */
void moments(const lanes *poses, const lanes *weight, const REAL *centre, const lanes *shares, REAL *mass, REAL *first,
             REAL *second, long positions, long parents, long blocks, long threads) {
#pragma omp parallel for num_threads(threads)
    for (long n = 0; n < positions; n++)
        for (long j = 0; j < parents; j++) {
            const lanes *share = shares + (n * parents + j) * blocks;
            const long parent = (n * parents + j) * 16;
            lanes total = {0};
            for (long i = 0; i < blocks; i++) total += share[i];
            mass[n * parents + j] = sum(total);
            for (int rows = 0; rows < 16; rows += 8) { /* two rows at a time, which is what the registers hold */
                lanes one[8] = {{0}}, two[8] = {{0}};
                for (long i = 0; i < blocks; i++) {
                    const lanes *pose = poses + (n * blocks + i) * 16 + rows, *matrix = weight + (j * blocks + i) * 16;
                    for (int d = 0; d < 8; d++) {
                        lanes v = vote(pose + d / 4 * 4, matrix + d % 4, centre[parent + rows + d]);
                        lanes shared = share[i] * v;
                        one[d] += shared;
                        two[d] += shared * v;
                    }
                }
                for (int d = 0; d < 8; d++) {
                    first[parent + rows + d] = sum(one[d]);
                    second[parent + rows + d] = sum(two[d]);
                }
            }
        }
}

/* fits: constant + linear . v + quadratic . v^2 for each input. */
void density(const lanes *poses, const lanes *weight, const REAL *centre, const REAL *constant, const REAL *linear,
               const REAL *quadratic, lanes *fits, long positions, long parents, long blocks, long threads) {
#pragma omp parallel for num_threads(threads)
    for (long n = 0; n < positions; n++)
        for (long j = 0; j < parents; j++) {
            const long parent = (n * parents + j) * 16;
            for (long i = 0; i < blocks; i++) {
                const lanes *pose = poses + (n * blocks + i) * 16, *matrix = weight + (j * blocks + i) * 16;
                lanes fit[4] = {{0}};
                for (int d = 0; d < 16; d++) {
                    lanes v = vote(pose + d / 4 * 4, matrix + d % 4, centre[parent + d]);
                    fit[d % 4] += (quadratic[parent + d] * v + linear[parent + d]) * v;
                }
                fits[(n * parents + j) * blocks + i] =
                    (fit[0] + fit[1]) + (fit[2] + fit[3]) + constant[n * parents + j];
            }
        }
}

/* The gradients of poses and weight, given the vote's as a sum over `factors` of share (linear + 2 quadratic v). A thread
   takes some of the inputs, to which both gradients belong, so that none waits for another. */
void gradients(const lanes *poses, const lanes *weight, const REAL *centre, const lanes *const *shares,
               const REAL *const *linear, const REAL *const *quadratic, long factors, lanes *restrict of_poses,
               lanes *restrict of_weight, long positions, long parents, long blocks, long threads) {
#pragma omp parallel for num_threads(threads)
    for (long t = 0; t < threads; t++)
        for (long n = 0; n < positions; n++)
            for (long j = 0; j < parents; j++)
                for (long i = blocks * t / threads; i < blocks * (t + 1) / threads; i++) {
                    const lanes *pose = poses + (n * blocks + i) * 16, *matrix = weight + (j * blocks + i) * 16;
                    const long parent = (n * parents + j) * 16, input = (n * parents + j) * blocks + i;
                    lanes of_vote[16];
                    for (int rows = 0; rows < 16; rows += 8) {
                        lanes one[8] = {{0}}, two[8] = {{0}};
                        for (long f = 0; f < factors; f++) {
                            const REAL *l = linear[f] + parent + rows, *q = quadratic[f] + parent + rows;
                            for (int d = 0; d < 8; d++) {
                                one[d] += shares[f][input] * l[d];
                                two[d] += shares[f][input] * q[d];
                            }
                        }
                        for (int d = 0; d < 8; d++) {
                            lanes v = vote(pose + rows + d / 4 * 4, matrix + d % 4, centre[parent + rows + d]);
                            of_vote[rows + d] = one[d] + 2 * two[d] * v;
                        }
                    }
                    lanes *restrict of_pose = of_poses + (n * blocks + i) * 16;
                    for (int r = 0; r < 4; r++)
                        for (int k = 0; k < 4; k++) {
                            lanes total = of_pose[r * 4 + k];
                            for (int c = 0; c < 4; c++) total += of_vote[r * 4 + c] * matrix[k * 4 + c];
                            of_pose[r * 4 + k] = total;
                        }
                    lanes *restrict of_matrix = of_weight + (j * blocks + i) * 16;
                    for (int k = 0; k < 4; k++)
                        for (int c = 0; c < 4; c++) {
                            lanes total = of_matrix[k * 4 + c];
                            for (int r = 0; r < 4; r++) total += pose[r * 4 + k] * of_vote[r * 4 + c];
                            of_matrix[k * 4 + c] = total;
                        }
                }
}
