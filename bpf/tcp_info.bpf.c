/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The walk of tcp.bpf.c, which also reads the fields from which struct tcp_info is calculated. It is a separate object,
 * because verifying that part takes time, and few listings need it.
 */
#define WITH_TCP_INFO
#include "tcp.bpf.c"
