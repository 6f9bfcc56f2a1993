/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Every socket that some process has a descriptor of, of all protocols but TCP, whose tables are walked over as a
 * whole (tcp.bpf.c).
 */
#define WITH_SOCKETS
#include "holders.h"

char license_[] SEC("license") = "GPL";
