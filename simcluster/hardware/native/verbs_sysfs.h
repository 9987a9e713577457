/* Reads the container's /sys/class/infiniband (or $SIMCLUSTER_SYSFS/class/infiniband) for the libibverbs stand-in. */
#ifndef SIMCLUSTER_VERBS_SYSFS_H
#define SIMCLUSTER_VERBS_SYSFS_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_abi.h"

static const char *class_path(char *out) {
    const char *root = getenv("SIMCLUSTER_SYSFS");
    snprintf(out, PATH, "%.200s/class/infiniband", root ? root : "/sys");
    return out;
}

/* A file's text below the device's directory without its line end; "" where it is absent. */
static const char *text_of(const struct ibv_device *device, const char *name, char *out) {
    char path[PATH + TEXT];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", device->ibdev_path, name);
    out[0] = 0;
    if ((file = fopen(path, "re")) != NULL) {
        if (!fgets(out, TEXT, file)) out[0] = 0;
        fclose(file);
    }
    out[strcspn(out, "\n")] = 0;
    return out;
}

static const char *port_text(const struct ibv_device *device, int port, const char *name, char *out) {
    char path[TEXT];
    snprintf(path, sizeof path, "ports/%d/%s", port, name);
    return text_of(device, path, out);
}

static unsigned long port_number(const struct ibv_device *device, int port, const char *name) {
    char text[TEXT];
    return strtoul(port_text(device, port, name, text), NULL, 0);
}

static int entries_of(const struct ibv_device *device, const char *name) {
    char path[PATH + TEXT];
    struct dirent *entry;
    int count = 0;
    DIR *directory;
    snprintf(path, sizeof path, "%s/%s", device->ibdev_path, name);
    if (!(directory = opendir(path))) return 0;
    while ((entry = readdir(directory)) != NULL) count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static int table_length(const struct ibv_device *device, int port, const char *table) {
    char path[TEXT];
    snprintf(path, sizeof path, "ports/%d/%s", port, table);
    return entries_of(device, path);
}

/* Words of four hexadecimal digits with colons between, as network bytes. */
static int bytes_of(const char *text, uint8_t *out, int words) {
    for (int word = 0; word < words; word++) {
        char *end;
        unsigned long value = strtoul(text, &end, 16);
        if (end == text || value > 0xffff) return EINVAL;
        out[2 * word] = (uint8_t)(value >> 8);
        out[2 * word + 1] = (uint8_t)value;
        text = end + (*end == ':');
    }
    return 0;
}

static uint64_t guid_of(const struct ibv_device *device, const char *name) {
    char text[TEXT];
    uint64_t guid = 0;
    return bytes_of(text_of(device, name, text), (uint8_t *)&guid, 4) ? 0 : guid;
}

#endif
