/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * The walk of tcp.bpf.c, which also reads what struct tcp_info is made of. It is an object of its own, for to verify
 * that part takes time, and few listings ask for it.
 */
#define WITH_TCP_INFO
#include "tcp.bpf.c"
