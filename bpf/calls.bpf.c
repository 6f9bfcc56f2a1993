/* SPDX-License-Identifier: GPL-2.0 OR MIT
 * Where the kernel has bpf_rdonly_cast (Linux 6.2). */
#include "calls.h"
