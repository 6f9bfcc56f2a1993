/* SPDX-License-Identifier: GPL-2.0 OR MIT
 * For kernels with bpf_rdonly_cast (Linux 6.2). */
#include "path.h"
