/* SPDX-License-Identifier: GPL-2.0 OR MIT
 * For kernels without bpf_rdonly_cast. */
#define BY_PROBE_READ
#include "udp_bytes.h"
