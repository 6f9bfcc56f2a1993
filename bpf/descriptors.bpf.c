/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Finds socket owners. Reading the sockets themselves is in another object (fd_sockets.bpf.c), because every listing with
 * owners has to load this one.
 */
#include "descriptors.h"

char license_[] SEC("license") = "GPL";
