#!/usr/bin/env python3
"""Reads the files of nerf-engine export by others' programs, which say what they find.

usage: read_exports.py [--out DIR] MODEL

GLB: gltf-validator of Khronos (npm). Mesh and points: assimp. Volume: OpenVDB's Python module. EXR:
OpenEXR's. The last three are unpacked from Debian's packages. Data set of views: numpy, and
nerf-engine check. A reader that cannot be had is named as skipped. Exits 1 where one
finds an error or other numbers than nerf-engine said. Needs numpy, npm and apt-get. Run it with
nerf-engine in PATH.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

PACKAGES = {
    'assimp': ['assimp-utils', 'libassimp5', 'libminizip1', 'libdraco7'],
    'openvdb': ['python3-openvdb', 'libopenvdb10.0', 'libopenvdb-ax10.0', 'libblosc1', 'libtbb12',
                'libimath-3-1-29', 'liblog4cplus-2.0.5', 'libboost-python1.74.0',
                'libboost-numpy1.74.0', 'libboost-iostreams1.74.0', 'libsnappy1v5', 'libllvm14'],
    'openexr': ['libopenexr-dev', 'libopenexr-3-1-30', 'libimath-dev', 'libimath-3-1-29']}
READ_EXR = '''
#include <ImfChannelList.h>
#include <ImfFrameBuffer.h>
#include <ImfHeader.h>
#include <ImfInputFile.h>
#include <ImfStandardAttributes.h>
#include <algorithm>
#include <cstdio>
#include <vector>
int main(int, char** argv) {
  Imf::InputFile file(argv[1]);
  const Imath::Box2i window = file.header().dataWindow();
  const size_t width = window.max.x + 1, height = window.max.y + 1;
  std::printf("{\\"complete\\": %d, \\"width\\": %zu, \\"height\\": %zu", file.isComplete(), width,
              height);
  const Imf::ChannelList& channels = file.header().channels();
  for (auto it = channels.begin(); it != channels.end(); ++it) {
    std::vector<float> values(width * height, -1);
    Imf::FrameBuffer buffer;
    buffer.insert(it.name(), Imf::Slice(Imf::FLOAT, (char*)values.data(), 4, 4 * width));
    file.setFrameBuffer(buffer);
    file.readPixels(window.min.y, window.max.y);
    std::printf(", \\"%s\\": [%g, %g]", it.name(), *std::min_element(values.begin(), values.end()),
                *std::max_element(values.begin(), values.end()));
  }
  // Of RGBAZ: where a point straight ahead of the camera is in the picture.
  if (Imf::hasWorldToCamera(file.header()) && Imf::hasWorldToNDC(file.header())) {
    const Imath::V3f ahead = Imath::V3f(0, 0, 2) * Imf::worldToCamera(file.header()).inverse();
    const Imath::V3f ndc = ahead * Imf::worldToNDC(file.header());
    std::printf(", \\"ahead\\": [%g, %g]", ndc.x, ndc.y);
  }
  std::puts("}");
}
'''
READ_VDB = '''
import json, numpy, pyopenvdb, sys
density, color = pyopenvdb.read(sys.argv[1], "density"), pyopenvdb.read(sys.argv[1], "Cd")
(low, high) = density.evalActiveVoxelBoundingBox()
values = numpy.zeros([b - a + 1 for a, b in zip(low, high)], numpy.float32)
density.copyToArray(values, ijk=low)
colors = numpy.zeros(values.shape + (3,), numpy.float32)
color.copyToArray(colors, ijk=low)
print(json.dumps({"points": density.activeVoxelCount(), "colored": color.activeVoxelCount(),
                  "dense": int((values > 0).sum()), "highest": float(colors.max()),
                  "corner": density.transform.indexToWorld(tuple(map(float, low)))}))
'''
VALIDATE = '''
const validator = require(process.argv[1] + "/node_modules/gltf-validator"), fs = require("fs");
validator.validateBytes(new Uint8Array(fs.readFileSync(process.argv[2]))).then(({issues, info}) =>
  console.log(JSON.stringify({errors: issues.numErrors, warnings: issues.numWarnings,
                              messages: issues.messages.slice(0, 3),
                              triangles: info.totalTriangleCount})));
'''


class Reader:
    good = True

    def __init__(self, tools):
        self.root, self.npm = tools / 'root', tools / 'npm'
        libraries = self.root / 'usr/lib' / (os.uname().machine + '-linux-gnu')
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries),
                                PYTHONPATH=str(self.root / 'usr/lib/python3/dist-packages'))

    def unpack(self, name):
        """Whether Debian's packages are there."""
        debs = self.root.parent / 'debs' / name
        if not debs.exists():
            debs.mkdir(parents=True)
            subprocess.run(['apt-get', '-o', 'APT::Sandbox::User=root', 'download', '-qq',
                            *PACKAGES[name]], cwd=debs, capture_output=True)
            for deb in debs.glob('*.deb'):
                subprocess.run(['dpkg-deb', '-x', deb, self.root], check=True)
        return any(debs.glob('*.deb'))

    def output(self, *arguments):
        done = subprocess.run([str(a) for a in arguments], env=self.environment,
                              capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else f'{done.stdout}{done.stderr}'

    def report(self, file, reader, found, is_good):
        self.good = self.good and is_good
        print(f"{file.name:14} {reader:16} {'reads' if is_good else 'WRONG'}: {found}", flush=True)

    def skip(self, file, reader):
        print(f'{file.name:14} {reader:16} skipped: not to be had here', flush=True)

    def validate(self, file, said):
        if not (self.npm / 'node_modules/gltf-validator').exists():
            subprocess.run(['npm', 'install', '--silent', '--prefix', self.npm, 'gltf-validator'],
                           capture_output=True)
        if not (self.npm / 'node_modules/gltf-validator').exists():
            return self.skip(file, 'gltf-validator')
        found = self.output('node', '-e', VALIDATE, self.npm, file)
        parsed = json.loads(found) if found.startswith('{') else {}
        self.report(file, 'gltf-validator', found.strip(),
                    parsed.get('errors') == 0 and parsed.get('warnings') == 0 and
                    parsed.get('triangles') == said['triangles'])

    def assimp(self, file, said):
        if not self.unpack('assimp') or not (self.root / 'usr/bin/assimp').exists():
            return self.skip(file, 'assimp')
        text = self.output(self.root / 'usr/bin/assimp', 'info', file, '-r')
        counts = {key: int(n) for key, n in re.findall(r'^(Vertices|Faces): +(\d+)', text, re.M)}
        is_good = counts.get('Vertices', 0) > 0 and (
            counts.get('Faces') == said['triangles'] or said['triangles'] == 0)
        self.report(file, 'assimp', counts or text.strip()[:200], is_good)

    def openvdb(self, file, said):
        if not self.unpack('openvdb'):
            return self.skip(file, 'OpenVDB')
        text = self.output('/usr/bin/python3', '-c', READ_VDB, file)
        found = json.loads(text) if text.startswith('{') else {}
        self.report(file, 'OpenVDB', text.strip()[-300:],
                    found.get('points') == found.get('colored') == found.get('dense') ==
                    said['vertices'] and found['highest'] <= 1)


    def read_exr(self):
        """A program that reads EXR by Debian's OpenEXR; None without it."""
        if not self.unpack('openexr'):
            return None
        program, libraries = self.root / 'read_exr', self.environment['LD_LIBRARY_PATH']
        include = self.root / 'usr/include'
        (self.root / 'read_exr.cc').write_text(READ_EXR)
        subprocess.run(['g++', '-std=c++17', '-w', '-I', include / 'OpenEXR', '-I',
                        include / 'Imath', self.root / 'read_exr.cc', '-L', libraries, '-lOpenEXR',
                        '-lImath', '-lIex', '-o', program], env=self.environment, check=True)
        return program

    def openexr(self, folder):
        """Views of `nerf-engine render --format exr` beside its PNGs."""
        program = self.read_exr()
        if program is None:
            return self.skip(folder / 'depth_0000.exr', 'OpenEXR')
        far = json.loads((folder / 'depth.json').read_text())['far']
        for file in sorted(folder.glob('*.exr')):
            text = self.output(program, file)
            found = json.loads(text) if text.startswith('{') else {}
            names = {'rgba': 'ABGR', 'depth': 'Z', 'rgbaz': 'ABGRZ'}[file.name.split('_')[0]]
            self.report(file, 'OpenEXR', text.strip()[-300:],
                        found.get('complete') == 1 and
                        len(found) == 3 + len(names) + ('ahead' in found) and
                        np.allclose(found.get('ahead', [9, 9]), 0.5) == (len(names) == 5) and
                        all(found[name][0] >= 0 and
                            0 < found[name][1] <= (far if name == 'Z' else 1) for name in names))

    def views(self, folder, n):
        """A data set as nerfstudio's readers take it: depths times 0.001 are in its unit."""
        frames = json.loads((folder / 'transforms.json').read_text())['frames']
        depths = [np.load(folder / frame['depth_file_path']) for frame in frames]
        is_good = len(frames) == n and all(
            depth.shape == (frame['h'], frame['w']) and depth.dtype == np.float32 and
            (folder / frame['file_path']).exists() for depth, frame in zip(depths, frames))
        self.report(folder, 'numpy', f'{n} views, depths up to '
                    f'{max(float(depth.max()) for depth in depths) / 1000:.4g}', is_good)
        check = subprocess.run(['nerf-engine', 'check', folder], capture_output=True, text=True)
        self.report(folder, 'nerf-engine check', f'exit {check.returncode}',
                    check.returncode == 0)


def export(model, file, *flags):
    done = subprocess.run(['nerf-engine', 'export', model, '--out', file, '--json', *flags],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f'{file}: exit {done.returncode}')
    return json.loads(done.stdout.splitlines()[-1])


def small_cameras(model, out):
    """The first eight cameras of the photographs, at most 100 pixels wide."""
    export(model, out / 'cameras.json', '--format', 'cameras')
    listed = json.loads((out / 'cameras.json').read_text())
    listed['frames'] = listed['frames'][:8]
    for frame in listed['frames']:
        shrink = max(1, frame['w'] // 100)
        for key in ('w', 'h'):
            frame[key] //= shrink
        for key in ('fl_x', 'fl_y', 'cx', 'cy'):
            frame[key] /= shrink
    (out / 'cameras.json').write_text(json.dumps(listed))
    return out / 'cameras.json'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('model')
    parser.add_argument('--out', type=pathlib.Path, help='keeps files and readers')
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = (flags.out or pathlib.Path(scratch)).resolve()
        out.mkdir(parents=True, exist_ok=True)
        reader = Reader(out)
        made = {name: export(flags.model, out / name, *more) for name, more in (
            ('mesh.ply', ()), ('mesh.glb', ('--frame', 'blender')),
            ('textured.glb', ('--texture', '1024', '--triangles', '50000')),
            ('points.ply', ('--format', 'points')), ('volume.vdb', ('--frame', 'unity')))}
        for name in ('mesh.glb', 'textured.glb'):
            reader.validate(out / name, made[name])
        for name in ('mesh.ply', 'mesh.glb', 'textured.glb', 'points.ply'):
            reader.assimp(out / name, made[name])
        reader.openvdb(out / 'volume.vdb', made['volume.vdb'])
        for form, channels in (('png', 'rgba,depth'), ('exr', 'rgba,depth'), ('exr', 'rgbaz')):
            subprocess.run(['nerf-engine', 'render', flags.model, '--out', out / 'views', '--orbit',
                            '2', '--width', '200', '--height', '200', '--channels', channels,
                            '--format', form], capture_output=True, check=True)
        reader.openexr(out / 'views')
        set_of_views = out / f'set-{os.getpid()}'
        made = export(flags.model, set_of_views, '--format', 'views', '--camera',
                      small_cameras(flags.model, out))
        reader.views(set_of_views, made['vertices'])
    sys.exit(0 if reader.good else 1)


if __name__ == '__main__':
    main()
